// Rows of pictures with their own proportions. All sizes come from the catalog, so nothing moves when a picture comes in.
import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { NearDuplicate, Hit, Picture } from "./api";
import { ButIcon, LikeIcon, StackIcon } from "./icons";
import { likelyAt } from "./state";
import { matchOf, nameOf, wordsOf } from "./text";

export interface Tile {
  picture: Picture | Hit | NearDuplicate;
  copyOf: number; // of an unfolded copy: the hit it looks like; 0: none
  copies: number; // folded under it
}

export interface GridActions {
  open: (id: number) => void;
  like: (id: number) => void;
  but: (id: number) => void;
  unfold: (id: number) => void;
  addressOf: (id: number) => string;
}

const gap = 10;
// A very wide or tall picture is shown whole inside a tile that is less so.
const shapeOf = (picture: Picture) =>
  picture.width > 0 && picture.height > 0 ? Math.min(3, Math.max(0.5, picture.width / picture.height)) : 1;

interface Row {
  tiles: { tile: Tile; width: number }[];
  height: number;
}

function heightFor(width: number): number {
  return width < 520 ? 136 : width < 1000 ? 158 : 190;
}

// `more`: pictures will follow, so that a row that is not full yet waits for them instead of moving later.
function rowsOf(tiles: Tile[], width: number, more: boolean): Row[] {
  const rows: Row[] = [];
  const wanted = heightFor(width);
  let row: Tile[] = [];
  let shapes = 0;
  const close = (height: number) => {
    let left = width - gap * (row.length - 1);
    const placed = row.map((tile, i) => {
      // Rounded so that a full row ends exactly at the edge.
      const exact = shapeOf(tile.picture) * height;
      const tileWidth = i === row.length - 1 && height !== wanted ? left : Math.round(exact);
      left -= tileWidth;
      return { tile, width: Math.max(40, tileWidth) };
    });
    rows.push({ tiles: placed, height: Math.round(height) });
    row = [];
    shapes = 0;
  };
  for (const tile of tiles) {
    row.push(tile);
    shapes += shapeOf(tile.picture);
    const height = (width - gap * (row.length - 1)) / shapes;
    if (height <= wanted) close(height);
  }
  if (row.length > 0 && !(more && rows.length > 0)) close(wanted);
  return rows;
}

// What a small copy is seen on: dark ink on paper, light ink on slate. Read from its pixels, which are this server's own.
function ground(image: HTMLImageElement): "" | "paper" | "slate" {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 16;
  const context = canvas.getContext("2d", { willReadFrequently: true });
  if (!context) return "";
  context.drawImage(image, 0, 0, 16, 16);
  const pixels = context.getImageData(0, 0, 16, 16).data;
  let covered = 0;
  let light = 0;
  for (let i = 0; i < pixels.length; i += 4) {
    const alpha = pixels[i + 3]! / 255;
    covered += alpha;
    light += alpha * (0.299 * pixels[i]! + 0.587 * pixels[i + 1]! + 0.114 * pixels[i + 2]!);
  }
  if (covered > 250) return "";
  return covered > 0 && light / covered > 215 ? "slate" : "paper";
}

export function Small({ picture, width, height }: { picture: Picture; width: number; height: number }) {
  const [shown, setShown] = useState<"" | "shown" | "shown paper" | "shown slate" | "broken">("");
  if (!picture.file_here) return <span class="small broken">{nameOf(picture)} (the file is not on this host)</span>;
  const wanted = Math.max(width, height) * Math.min(2, window.devicePixelRatio || 1);
  const size = wanted > 300 ? 512 : 256;
  return (
    <img
      class={`small ${shown}`}
      src={`${picture.thumbnail}?size=${size}`}
      alt={nameOf(picture)}
      width={Math.round(width)}
      height={Math.round(height)}
      loading="lazy"
      decoding="async"
      draggable={false}
      onLoad={(event) => {
        const on = picture.format === "jpeg" ? "" : ground(event.currentTarget);
        setShown(on ? `shown ${on}` : "shown");
      }}
      onError={() => setShown("broken")}
    />
  );
}

function TileView({ tile, width, height, actions }: { tile: Tile; width: number; height: number; actions: GridActions }) {
  const { picture } = tile;
  const name = nameOf(picture);
  const follow = (event: MouseEvent) => {
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.button !== 0) return;
    event.preventDefault();
    actions.open(picture.id);
  };
  return (
    <li class={`tile ${tile.copyOf ? "copy" : ""}`} style={{ width: `${width}px`, height: `${height}px` }}>
      <a class="tile-link" href={actions.addressOf(picture.id)} onClick={follow} data-id={picture.id}
        title={"match" in picture ? matchOf(picture) : undefined}>
        <Small picture={picture} width={width} height={height} />
      </a>
      <div class="tile-actions">
        <button type="button" onClick={() => actions.like(picture.id)} title="More like this" aria-label={`More like ${name}`}>
          <LikeIcon />
        </button>
        <button type="button" onClick={() => actions.but(picture.id)} title="This picture, but …" aria-label={`${name}, but …`}>
          <ButIcon />
        </button>
      </div>
      {"keywords" in picture && picture.keywords && (
        <span class="by-words" title={`Also matches by its words: ${wordsOf(picture)}`}>Aa</span>
      )}
      {tile.copies > 0 && (
        <button type="button" class="copies" onClick={() => actions.unfold(picture.id)} title="Near-duplicates"
          aria-label={`Show ${tile.copies} near-duplicate${tile.copies > 1 ? "s" : ""} of ${name}`}>
          <StackIcon />
          {tile.copies}
        </button>
      )}
    </li>
  );
}

function useWidth(): [JSX.HTMLAttributes<HTMLDivElement>["ref"], number] {
  const ref = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const element = ref.current!;
    const measure = () => setWidth(Math.floor(element.getBoundingClientRect().width));
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  return [ref, width];
}

// The arrow keys go from picture to picture; up and down to the nearest of the next row.
function arrows(event: KeyboardEvent) {
  const links = [...(event.currentTarget as HTMLElement).querySelectorAll<HTMLElement>(".tile-link")];
  const here = links.indexOf((event.target as HTMLElement).closest<HTMLElement>(".tile-link")!);
  if (here < 0) return;
  let to: HTMLElement | undefined;
  if (event.key === "ArrowRight") to = links[here + 1];
  else if (event.key === "ArrowLeft") to = links[here - 1];
  else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    const box = links[here]!.getBoundingClientRect();
    const down = event.key === "ArrowDown";
    let best = Infinity;
    for (const link of links) {
      const other = link.getBoundingClientRect();
      const rowsAway = down ? other.top - box.top : box.top - other.top;
      if (rowsAway < 8) continue;
      const away = rowsAway * 10 + Math.abs(other.left + other.width / 2 - box.left - box.width / 2);
      if (away < best) [best, to] = [away, link];
    }
  } else return;
  event.preventDefault();
  to?.focus();
  to?.scrollIntoView({ block: "nearest" });
}

const wasLookedAtAgain = (picture: Picture | Hit) => "reranked" in picture && picture.reranked === true;

export function Grid({ pictures, unfolded, byLikelihood, more, loadMore, actions, label }: {
  pictures: (Picture | Hit)[];
  unfolded: Set<number>;
  byLikelihood: boolean;
  more: boolean;
  loadMore: () => void;
  actions: GridActions;
  label: string;
}) {
  const [ref, width] = useWidth();
  const sections = useMemo(() => {
    const likely: Tile[] = [];
    const unlikely: Tile[] = [];
    // The order stays: the line is behind the last hit that is likely, or was looked at again, whatever stands before it.
    const rightOf = (picture: Picture | Hit) => ("match_probability" in picture ? picture.match_probability?.right : null) ?? 1;
    const isAbove = byLikelihood ? (picture: Picture | Hit) => rightOf(picture) >= likelyAt : wasLookedAtAgain;
    const last = pictures.findLastIndex(isAbove);
    for (const [i, picture] of pictures.entries()) {
      const folded = "near_duplicates" in picture ? picture.near_duplicates : [];
      const into = last < 0 || i <= last ? likely : unlikely;
      const open = unfolded.has(picture.id);
      into.push({ picture, copyOf: 0, copies: open ? 0 : folded.length });
      if (open) for (const copy of folded) into.push({ picture: copy, copyOf: picture.id, copies: 0 });
    }
    return { likely, unlikely };
  }, [pictures, unfolded, byLikelihood]);
  const rows = useMemo(
    () => (width > 0 ? [
            rowsOf(sections.likely, width, more && sections.unlikely.length === 0),
            rowsOf(sections.unlikely, width, more),
          ] : [[], []]),
    [sections, width, more],
  );

  const end = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const element = end.current;
    if (!element || !more) return;
    const observer = new IntersectionObserver((entries) => entries.some((entry) => entry.isIntersecting) && loadMore(), {
      rootMargin: "1200px",
    });
    observer.observe(element);
    return () => observer.disconnect();
  }, [more, loadMore]);

  const below = byLikelihood ? "Less likely to be right" : "Not looked at again";
  const section = (some: Row[], name: string) => (
    <ul class="rows" aria-label={name}>
      {some.map((row) =>
        row.tiles.map(({ tile, width: tileWidth }) => (
          <TileView key={`${tile.copyOf}-${tile.picture.id}`} tile={tile} width={tileWidth} height={row.height} actions={actions} />
        )),
      )}
    </ul>
  );
  return (
    <div class="grid" ref={ref} onKeyDown={arrows}>
      {rows[0]!.length > 0 && section(rows[0]!, label)}
      {rows[1]!.length > 0 && (
        <>
          <h2 class="below">
            <span>{below}</span>
          </h2>
          {section(rows[1]!, below)}
        </>
      )}
      <div ref={end} class="end">
        {more && <span class="dots" aria-hidden="true" />}
      </div>
    </div>
  );
}

export function Skeleton() {
  const [ref, width] = useWidth();
  const height = width > 0 ? heightFor(width) : 0;
  const shapes = [1.5, 1, 0.75, 1.33, 1, 1.6, 1, 0.8, 1.33, 1, 1.4, 0.75, 1, 1.5, 1.2, 1, 0.9, 1.5];
  return (
    <div class="grid" ref={ref} aria-hidden="true">
      <div class="rows">
        {shapes.map((shape, i) => (
          <span key={i} class="tile ghost" style={{ width: `${Math.round(shape * height)}px`, height: `${height}px` }} />
        ))}
      </div>
    </div>
  );
}
