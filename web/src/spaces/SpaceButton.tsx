// Which space is shown, beside the name of the page, for a caller that may name several.
import type { FunctionComponent } from "preact";
import { useState } from "preact/hooks";
import { namedSpaces, session } from "../api/session";
import { t } from "../texts";
import { Icon } from "../ui/Icon";
import type { DialogProps } from "./SpaceDialog";

export function SpaceButton() {
  const [Dialog, setDialog] = useState<FunctionComponent<DialogProps>>();
  const [isOpen, setOpen] = useState(false);
  const state = session.value;
  const spaces = namedSpaces();
  if (state.kind !== "open" || spaces.length === 1) return null;
  const { space } = state.caller;
  const open = async () => {
    if (!Dialog) {
      const part = await import("./SpaceDialog");
      setDialog(() => part.SpaceDialog);
    }
    setOpen(true);
  };
  return (
    <>
      <button class="space-button" aria-haspopup="dialog" title={t.app.chooseSpace(space)} aria-label={t.app.chooseSpace(space)} onClick={() => void open()}>
        <span>{space}</span>
        <Icon name="expand" />
      </button>
      {Dialog && isOpen && <Dialog current={space} named={spaces} onClose={() => setOpen(false)} />}
    </>
  );
}
