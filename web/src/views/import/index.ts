import { Scope } from "@recollect/client";
import { mostImport } from "../../api/base";
import { t } from "../../texts";
import type { View } from "../registry";

export const view: View = {
  path: "/import",
  name: t.nav.import,
  icon: "upload",
  isInPalette: true,
  isAbsent: !mostImport,
  scopes: [Scope.CONVERSATIONS_READ, Scope.CONVERSATIONS_WRITE, Scope.CONVERSATIONS_MANAGE],
  reach: "space",
  load: () => import("./Import"),
};
