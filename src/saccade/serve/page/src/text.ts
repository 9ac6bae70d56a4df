// Words and figures as people read them.
import type { Hit, Picture } from "./api";

const figures = new Intl.NumberFormat("en");
export const count = (value: number) => figures.format(value);
export const counted = (value: number, one: string) => `${count(value)} ${one}${value === 1 ? "" : "s"}`;
export const percent = (value: number) => `${Math.round(100 * value)}%`;

export const fileName = (path: string) => path.slice(path.lastIndexOf("/") + 1);
export const folderOf = (path: string) => path.slice(0, path.lastIndexOf("/")) || "/";

// "0:42", "1:02:03": as players show it.
export function time(seconds: number): string {
  const two = (value: number) => String(Math.floor(value)).padStart(2, "0");
  const minutes = Math.floor(seconds / 60);
  return minutes < 60 ? `${minutes}:${two(seconds % 60)}` : `${Math.floor(minutes / 60)}:${two(minutes % 60)}:${two(seconds % 60)}`;
}

// Its file's name, of a frame with its place in the video.
export function titleOf(picture: Picture): string {
  return fileName(picture.path) + (picture.second === null ? "" : ` at ${time(picture.second)}`);
}

// The file; a video opens where the frame is.
export const addressOfFile = (picture: Picture) => picture.file + (picture.second === null ? "" : `#t=${picture.second}`);

// What a picture is called where it cannot be seen.
export function nameOf(picture: Picture): string {
  const caption = picture.caption.trim();
  return caption ? (caption.length > 120 ? `${caption.slice(0, 119)}…` : caption) : titleOf(picture);
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

// A note of the server's, as a sentence of its own.
export const sentence = (text: string) => text.charAt(0).toUpperCase() + text.slice(1);

// "heart in the caption, icons in the folder": which words of the query its caption, name and folders have.
export function wordsOf(hit: Hit): string {
  const named: Record<string, string> = { caption: "the caption", name: "the file name", folders: "the folder" };
  return (hit.keywords?.matches ?? []).map(({ term, in: fields }) => `${term} in ${named[fields[0] ?? ""] ?? "its words"}`).join(", ");
}

// "Strong match (match probability 0.93)"; undefined where it is not known.
export function matchOf(hit: Hit): string | undefined {
  const right = hit.match_probability?.right;
  return hit.match && right != null ? `${sentence(hit.match)} (match probability ${right.toFixed(2)})` : undefined;
}
