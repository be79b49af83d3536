import{a}from"./part-47UY3RUC.js";import"./part-I7M7PLZV.js";import"./part-AHG5BGJ5.js";export{a as Screen};
