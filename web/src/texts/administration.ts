// The texts of the views of administrators, with those of the whole page.
import { t as page } from ".";
import { administration } from "./en/administration";

export const t = { ...page, ...administration };
