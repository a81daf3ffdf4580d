// The texts of the page. Another language is another folder of the same shape; what a view says is loaded with it.
import { page } from "./en/page";

export type Texts = typeof page;
export const t: Texts = page;
