import{a}from"./part-HRVRZH4M.js";import"./part-5HOBM6L6.js";import"./part-AHG5BGJ5.js";export{a as Screen};
