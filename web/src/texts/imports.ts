// The texts of the view that imports a file, with those of the whole page.
import { t as page } from ".";
import { imports } from "./en/imports";

export const t = { ...page, ...imports };
