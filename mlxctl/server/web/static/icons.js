// Icons as lines on a grid of 24. They are decoration: the button around one has the label.

const SVG = "http://www.w3.org/2000/svg";
const PATHS = {
  attach: "M20 11.5l-8.2 8.2a5 5 0 0 1-7-7L13.5 4a3.3 3.3 0 0 1 4.7 4.7l-8.6 8.5a1.6 1.6 0 0 1-2.3-2.3l7.6-7.5",
  auto: "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18zM12 3v18M12 8h7.6M12 12h9M12 16h7.6",
  branch: "M6 4v16M6 14c0-5 12-2 12-8M18 6a2 2 0 1 0 0-4 2 2 0 0 0 0 4zM6 22a2 2 0 1 0 0-4 2 2 0 0 0 0 4zM6 6a2 2 0 1 0 0-4 2 2 0 0 0 0 4z",
  chat: "M4 5h16v11H10l-5 4v-4H4z",
  check: "M5 12.5l4.5 4.5L19 7.5",
  chevron: "M6 9l6 6 6-6",
  close: "M6 6l12 12M18 6L6 18",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  dark: "M20 14.5A8.5 8.5 0 1 1 9.5 4a7 7 0 0 0 10.5 10.5z",
  download: "M12 4v11M7 11l5 5 5-5M4 20h16",
  edit: "M4 20l1-4.5L16.5 4 20 7.5 8.5 19zM14 6.5l3.5 3.5",
  file: "M6 3h8l5 5v13H6zM14 3v5h5",
  keyboard: "M3 7h18v11H3zM7 11h.01M11 11h.01M15 11h.01M8 14.5h8",
  layers: "M12 3l9 5-9 5-9-5zM3 12.5l9 5 9-5M3 17l9 5 9-5",
  left: "M15 6l-6 6 6 6",
  light: "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM12 2v2M12 20v2M4.9 4.9l1.4 1.4M17.7 17.7l1.4 1.4M2 12h2M20 12h2M4.9 19.1l1.4-1.4M17.7 6.3l1.4-1.4",
  microphone: "M12 3a3 3 0 0 0-3 3v6a3 3 0 0 0 6 0V6a3 3 0 0 0-3-3zM6 11v1a6 6 0 0 0 12 0v-1M12 18v3",
  models: "M12 3l8 4.5v9L12 21l-8-4.5v-9zM4 7.5l8 4.5 8-4.5M12 12v9",
  more: "M5 12h.01M12 12h.01M19 12h.01",
  pin: "M9 3h6l-1 7 3 3H7l3-3zM12 13v8",
  play: "M7 5l12 7-12 7z",
  plus: "M12 5v14M5 12h14",
  pulse: "M3 12h4l3-8 4 16 3-8h4",
  retry: "M20 5v5h-5M20 10a8.5 8.5 0 1 0 .5 4",
  right: "M9 6l6 6-6 6",
  search: "M11 4a7 7 0 1 0 0 14 7 7 0 0 0 0-14zM16 16l5 5",
  send: "M12 20V5M6 11l6-6 6 6",
  sidebar: "M4 5h16v14H4zM9.5 5v14",
  sliders: "M4 7h9M17 7h3M15 5v4M4 17h3M11 17h9M9 15v4",
  speaker: "M4 9.5v5h3.5L12 19V5L7.5 9.5zM15.5 9a4.5 4.5 0 0 1 0 6M18 6.5a8 8 0 0 1 0 11",
  stop: "M7 7h10v10H7z",
  thought: "M9 18h6M10 21h4M12 3a6 6 0 0 0-3.5 10.9V16h7v-2.1A6 6 0 0 0 12 3z",
  tool: "M14.5 6.5a4 4 0 0 1 5-2.5l-2.5 2.5.5 2 2 .5L22 6.5a4.5 4.5 0 0 1-6 5.5l-8 8.5a2 2 0 0 1-3-3l8.5-8a4.5 4.5 0 0 1 1-3z",
  trash: "M5 7h14M10 7V4h4v3M6.5 7l1 13h9l1-13",
  upload: "M12 16V5M7 9l5-5 5 5M4 20h16",
  wrap: "M4 6h16M4 12h13a3 3 0 0 1 0 6h-5M14 15l-3 3 3 3M4 18h4",
};

export function icon(name) {
  const svg = document.createElementNS(SVG, "svg"), path = document.createElementNS(SVG, "path");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("class", "icon");
  svg.dataset.icon = name;
  svg.setAttribute("aria-hidden", "true");
  path.setAttribute("d", PATHS[name]);
  svg.append(path);
  return svg;
}
