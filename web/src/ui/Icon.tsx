// Icons of one path each, drawn with strokes. They are decoration: a text always stands beside them.
const PATHS = {
  web: "M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2M2 8h12M8 2c4 4 4 8 0 12M8 2c-4 4-4 8 0 12",
  phone: "M5 2h6a1 1 0 0 1 1 1v10a1 1 0 0 1-1 1H5a1 1 0 0 1-1-1V3a1 1 0 0 1 1-1M7 12h2",
  email: "M2 4h12v8H2zM2 4.5l6 4.5 6-4.5",
  group: "M6 8a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5M1.5 13c0-5 9-5 9 0M11 8a2 2 0 1 0-.5-4M12 9.5c2 .3 2.7 1.6 2.7 3.5",
  terminal: "M2 3h12v10H2zM4.5 6l2 2-2 2M8.5 10h3",
  chat: "M2 3h12v8H7l-3 2.5V11H2z",
  search: "M7 2.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9M10.5 10.5L14 14",
  filter: "M2 4h12M4.5 8h7M6.5 12h3",
  calendar: "M2.5 3.5h11v10h-11zM2.5 6.5h11M5.5 2v3M10.5 2v3",
  plus: "M8 3v10M3 8h10",
  pencil: "M3 13l.7-3L11 2.7l2.3 2.3L6 12.3zM9.5 4.2l2.3 2.3",
  lock: "M4 7h8v6H4zM5.5 7V5a2.5 2.5 0 0 1 5 0v2",
  pin: "M6 2h4l-.5 4L12 8.5H4L6.5 6zM8 8.5V14",
  sun: "M8 5a3 3 0 1 0 0 6 3 3 0 0 0 0-6M8 1v1.5M8 13.5V15M1 8h1.5M13.5 8H15M3 3l1 1M12 12l1 1M3 13l1-1M12 4l1-1",
  moon: "M13 9.5A5.5 5.5 0 1 1 6.5 3a4.5 4.5 0 0 0 6.5 6.5z",
  auto: "M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2M8 2v12M8 5h5M8 8h6M8 11h5",
  back: "M9.5 3L4.5 8l5 5",
  down: "M8 3v10M4 9l4 4 4-4",
  chevron: "M6 4l4 4-4 4",
  panel: "M2 3h12v10H2zM10 3v10",
  keyboard: "M1.5 4h13v8h-13zM4 6.5h.01M6.5 6.5h.01M9 6.5h.01M11.5 6.5h.01M5 9.5h6",
  close: "M4 4l8 8M12 4l-8 8",
  tool: "M10 2.5a3.5 3.5 0 0 0-3.3 4.7L2.5 11.5l2 2 4.3-4.2A3.5 3.5 0 0 0 13.5 6L11 7.5 8.5 5z",
  thought: "M5 12.5a3 3 0 0 1-1-5.8 4 4 0 0 1 7.7-1A3.3 3.3 0 0 1 11.5 12.5z",
  clip: "M12.5 7L7.5 12a2.8 2.8 0 0 1-4-4L9 2.7a1.9 1.9 0 0 1 2.7 2.7L6.3 10.6a.9.9 0 0 1-1.3-1.3L9.5 5",
  chart: "M2 14h12M4 12V8M8 12V3M12 12V6",
  person: "M8 8a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5M3 14c0-5.5 10-5.5 10 0M11.5 8.5l1.5 1.5 2-3",
  account: "M8 1.8a6.2 6.2 0 1 0 0 12.4A6.2 6.2 0 0 0 8 1.8M8 8.3a2.1 2.1 0 1 0 0-4.2 2.1 2.1 0 0 0 0 4.2M4.3 12.8c.6-3.3 6.8-3.3 7.4 0",
  people: "M8 8a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5M3 14c0-5.5 10-5.5 10 0",
  gear: "M8 5.5a2.5 2.5 0 1 0 0 5 2.5 2.5 0 0 0 0-5M8 1.5v2M8 12.5v2M1.5 8h2M12.5 8h2M3.4 3.4l1.4 1.4M11.2 11.2l1.4 1.4M3.4 12.6l1.4-1.4M11.2 4.8l1.4-1.4",
  server: "M2.5 2.5h11v4.5h-11zM2.5 9h11v4.5h-11zM5 4.8h.01M5 11.3h.01M8 4.8h3M8 11.3h3",
  key: "M5 5.5a2.5 2.5 0 1 0 0 5 2.5 2.5 0 0 0 0-5M7.5 8H14v2.5M11.5 8v2",
  list: "M2.5 4h.01M2.5 8h.01M2.5 12h.01M5.5 4h8M5.5 8h8M5.5 12h8",
  disks: "M8 2c-3 0-5 .8-5 2v8c0 1.2 2 2 5 2s5-.8 5-2V4c0-1.2-2-2-5-2M3 4c0 1.2 2 2 5 2s5-.8 5-2M3 8c0 1.2 2 2 5 2s5-.8 5-2",
  pulse: "M1.5 8h3l2-5 3 10 2-5h3",
  send: "M2 8l12-5.5L10.5 14 8 9z",
  exit: "M6 2H3v12h3M10 5l3 3-3 3M6.5 8H13",
  expand: "M5 6.5L8 3.5l3 3M5 9.5l3 3 3-3",
  more: "M3.5 8h.01M8 8h.01M12.5 8h.01",
  archive: "M2 3h12v3H2zM3 6v7h10V6M6.5 8.5h3",
  unarchive: "M2 3h12v3H2zM3 6v7h10V6M8 12V8M6.2 9.6L8 7.8l1.8 1.8",
  tag: "M2 2.5h5.5L14 9l-5 5-6.5-6.5zM5 5.5h.01",
  hidden: "M2 8c3-5 9-5 12 0-3 5-9 5-12 0M3 13L13 3",
  space: "M2.5 2.5h4.5v4.5H2.5zM9 2.5h4.5v4.5H9zM2.5 9H7v4.5H2.5zM9 9h4.5v4.5H9z",
  copy: "M5.5 5.5h8v8h-8zM3.5 10.5h-1v-8h8v1",
  link: "M6.5 9.5l3-3M7.5 4.5l1.5-1.5a2.8 2.8 0 0 1 4 4L11.5 8.5M8.5 11.5L7 13a2.8 2.8 0 0 1-4-4l1.5-1.5",
  raw: "M5.5 4.5L2 8l3.5 3.5M10.5 4.5L14 8l-3.5 3.5",
  fork: "M4.5 2v12M4.5 9c0-3 7-1.5 7-5.5M11.5 6a1.6 1.6 0 1 0 0-3.2 1.6 1.6 0 0 0 0 3.2",
  eraser: "M6 13h8M2.5 9.5l6-6.5 4.5 4.5-5 5.5H5z",
  trash: "M2.5 4h11M6 4V2.5h4V4M4 4l.7 9.5h6.6L12 4M6.7 6.5v5M9.3 6.5v5",
  download: "M8 2v8M4.5 7L8 10.5 11.5 7M2.5 13.5h11",
  upload: "M8 10V2M4.5 5L8 1.5 11.5 5M2.5 13.5h11",
  choose: "M2 3h3v3H2zM2 10h3v3H2zM8 4.5h6M8 11.5h6",
  good: "M2.5 7.5h2v6h-2zM4.5 7.5l3-5c1.2 0 1.7.8 1.4 1.8l-.6 2.2h4.2c.8 0 1.2.6 1 1.3l-1.2 4.7c-.2.6-.6 1-1.2 1H4.5",
  bad: "M2.5 8.5h2v-6h-2zM4.5 8.5l3 5c1.2 0 1.7-.8 1.4-1.8l-.6-2.2h4.2c.8 0 1.2-.6 1-1.3l-1.2-4.7c-.2-.6-.6-1-1.2-1H4.5",
  up: "M4 10l4-4 4 4",
  check: "M3 8.5l3.5 3.5L13 4.5",
  warning: "M8 2l6.5 12h-13zM8 6.5v3.5M8 12h.01",
};

export type IconName = keyof typeof PATHS;

const CHANNELS: Record<string, IconName> = {
  web: "web", whatsapp: "phone", signal: "phone", sms: "phone", telegram: "send", email: "email",
  discord: "group", slack: "group", cli: "terminal", voice: "phone",
};

/** Return the icon of a channel. */
export function channelIcon(channel: string): IconName {
  return CHANNELS[channel] ?? "chat";
}

/** Return the icon of a theme. */
export function themeIcon(theme: "auto" | "light" | "dark"): IconName {
  return theme === "dark" ? "moon" : theme === "light" ? "sun" : "auto";
}

export function Icon({ name }: { name: IconName }) {
  return (
    <svg class="icon" viewBox="0 0 16 16" aria-hidden="true">
      <path d={PATHS[name]} />
    </svg>
  );
}
