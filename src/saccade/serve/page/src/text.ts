// Words and figures as people read them.
import type { Picture } from "./api";

const figures = new Intl.NumberFormat("en");
export const count = (value: number) => figures.format(value);
export const counted = (value: number, one: string) => `${count(value)} ${one}${value === 1 ? "" : "s"}`;
export const percent = (value: number) => `${Math.round(100 * value)}%`;

export const fileName = (path: string) => path.slice(path.lastIndexOf("/") + 1);
export const folderOf = (path: string) => path.slice(0, path.lastIndexOf("/")) || "/";

// What a picture is called where it cannot be seen.
export function nameOf(picture: Picture): string {
  const caption = picture.caption.trim();
  return caption ? (caption.length > 120 ? `${caption.slice(0, 119)}…` : caption) : fileName(picture.path);
}

export function bytes(value: number): string {
  for (const [unit, name] of [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"]] as const) {
    if (value >= unit) return `${(value / unit).toFixed(value < 10 * unit ? 1 : 0)} ${name}`;
  }
  return `${value} bytes`;
}

export const day = (seconds: number) =>
  new Date(seconds * 1000).toLocaleDateString(undefined, { year: "numeric", month: "long", day: "numeric" });

export function duration(seconds: number): string {
  return seconds < 1 ? `${Math.max(1, Math.round(seconds * 1000))} ms` : `${seconds.toFixed(1)} s`;
}

// Where a long name may be broken.
export const breakable = (name: string) => name.split(/(?<=[_.\-])/);
