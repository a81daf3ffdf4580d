// Who is signed in, and what the whole page does: its theme, its keys, and signing out.
import { useRef, useState } from "preact/hooks";
import { hasToken, person, session, signOut } from "./api/session";
import { helpOpen } from "./keyboard";
import { theme, THEMES } from "./state/theme";
import { t } from "./texts";
import { Icon, themeIcon } from "./ui/Icon";
import { Menu, type MenuItem } from "./ui/Menu";

export function Account() {
  const button = useRef<HTMLButtonElement>(null);
  const [box, setBox] = useState<DOMRect>();
  const name = person.value;
  const close = () => {
    setBox(undefined);
    button.current?.focus();
  };
  const items: MenuItem[] = [
    ...THEMES.map((it) => ({
      icon: themeIcon(it), text: t.app.theme[it], isChosen: it === theme.value, run: () => { theme.value = it; },
    })),
    { icon: "keyboard", text: t.app.keys, key: "?", run: () => { helpOpen.value = true; } },
    ...(hasToken() ? [{ icon: "exit", text: t.app.signOut, run: () => void signOut() } satisfies MenuItem] : []),
  ];
  return (
    <>
      <button
        ref={button} class="account" aria-haspopup="menu" title={signedIn(name)} aria-label={signedIn(name)}
        onClick={(event) => setBox(event.currentTarget.getBoundingClientRect())}
      >
        <Icon name="account" />
        {name && <bdi>{name}</bdi>}
      </button>
      {box && <Menu label={t.app.account} head={signedIn(name)} items={items} box={box} onClose={close} />}
    </>
  );
}

/** Return who is signed in, and with what. */
function signedIn(name: string): string {
  const kind = session.value.kind === "open" ? session.value.caller.kind : "";
  return name ? t.app.signedIn(name, kind) : kind ? t.app.withToken(kind) : t.app.withoutToken;
}
