import { Scope } from "@recollect/client";
import { t } from "../../texts";
import type { View } from "../registry";

export const view: View = {
  path: "/tokens",
  name: t.nav.tokens,
  icon: "key",
  order: 3,
  of: "server",
  scopes: [Scope.ADMIN],
  reach: "space",
  load: () => import("./Tokens"),
};
