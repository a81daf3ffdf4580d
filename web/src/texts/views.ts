// The texts of views and dialogs, with those of the whole page.
import { t as page } from ".";
import { views } from "./en/views";

export const t = { ...page, ...views };
