import{a}from"./part-XZCZ5I5J.js";import"./part-XBGYDGZL.js";import"./part-MXOZFXDR.js";export{a as Screen};
