// Why a hit is one: its words shaded by what the score owes to each, and a map over the picture.
import { useEffect, useRef, useState } from "preact/hooks";
import { type Explanation, api, wasAborted } from "./api";
import { imageOf } from "./images";
import { type State, bodyOf } from "./state";
import { percent } from "./text";

export function useExplanation(state: State, collection: string, composer: boolean, id: number, wanted: boolean) {
  const [explanation, setExplanation] = useState<Explanation | null>(null);
  const [error, setError] = useState<string | null>(null);
  useEffect(() => {
    setExplanation(null);
    setError(null);
    if (!wanted) return;
    const control = new AbortController();
    const body = bodyOf(state, state.image ? imageOf(state.image) : null, `id=${id}`, 0, composer);
    delete body.min_probability;
    delete body.rerank;
    delete body.rerank_depth;
    api
      .search(collection, { ...body, k: 1, group_duplicates: false, order: "score", explain: true }, control.signal)
      .then((answer) => {
        const found = answer.hits[0]?.explanations?.[0];
        if (found) setExplanation(found);
        else setError("There is nothing to say of this picture.");
      })
      .catch((failure) => {
        if (!wasAborted(failure)) setError((failure as Error).message);
      });
    return () => control.abort();
  }, [collection, id, wanted, state.text, state.like, state.image, state.weight, state.whole]);
  return { explanation, error };
}

// Dark violet to bright yellow, lightness rising, as on the report pages.
function colour(share: number): [number, number, number] {
  const stops = [
    [27, 12, 65],
    [115, 32, 129],
    [199, 62, 105],
    [249, 142, 60],
    [252, 240, 140],
  ] as const;
  const at = Math.min(0.9999, Math.max(0, share)) * (stops.length - 1);
  const low = stops[Math.floor(at)]!;
  const high = stops[Math.floor(at) + 1]!;
  const part = at - Math.floor(at);
  return [0, 1, 2].map((i) => Math.round(low[i]! + part * (high[i]! - low[i]!))) as [number, number, number];
}

const side = 192;

// The map's value at a place between its cells, whose middles are at whole numbers.
function between(map: NonNullable<Explanation["map"]>, x: number, y: number): number {
  const at = (column: number, row: number) => {
    const c = Math.min(map.columns - 1, Math.max(0, column));
    const r = Math.min(map.rows - 1, Math.max(0, row));
    return map.values[r * map.columns + c]!;
  };
  const left = Math.floor(x);
  const top = Math.floor(y);
  const dx = x - left;
  const dy = y - top;
  const upper = at(left, top) * (1 - dx) + at(left + 1, top) * dx;
  const lower = at(left, top + 1) * (1 - dx) + at(left + 1, top + 1) * dx;
  return upper * (1 - dy) + lower * dy;
}

export function HeatMap({ map }: { map: NonNullable<Explanation["map"]> }) {
  const ref = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    const canvas = ref.current!;
    canvas.width = canvas.height = side;
    const context = canvas.getContext("2d")!;
    const pixels = context.createImageData(side, side);
    const most = Math.max(...map.values);
    const least = Math.min(...map.values);
    for (let y = 0; y < side; ++y) {
      for (let x = 0; x < side; ++x) {
        const value = between(map, ((x + 0.5) / side) * map.columns - 0.5, ((y + 0.5) / side) * map.rows - 0.5);
        const share = most > least ? (value - least) / (most - least) : 0;
        pixels.data.set([...colour(share), 255], 4 * (y * side + x));
      }
    }
    context.putImageData(pixels, 0, 0);
  }, [map]);
  const box = map.box ?? { x: 0, y: 0, width: 1, height: 1 };
  return (
    <canvas
      ref={ref}
      class="heat"
      role="img"
      aria-label="Map of where in the picture its score comes from: bright is much"
      style={{
        left: `${100 * box.x}%`,
        top: `${100 * box.y}%`,
        width: `${100 * box.width}%`,
        height: `${100 * box.height}%`,
      }}
    />
  );
}

export function Words({ explanation, text }: { explanation: Explanation; text: string }) {
  if (explanation.words.length === 0) return null;
  // Offsets are of UTF-8.
  const encoded = new TextEncoder().encode(text);
  const decoder = new TextDecoder();
  const piece = (begin: number, end: number) => decoder.decode(encoded.slice(begin, end));
  const most = Math.max(...explanation.words.map((word) => Math.abs(word.drop)), 1e-6);
  const parts = [];
  let at = 0;
  for (const word of explanation.words) {
    if (word.begin > at) parts.push(piece(at, word.begin));
    const share = Math.abs(word.drop) / most;
    const level = Math.round(4 * share);
    const against = word.drop < 0;
    parts.push(
      <mark key={word.begin} class={`word ${against ? "against" : "for"} level-${level}`}
        title={against ? "Without this word the picture would score higher" : `The score loses ${word.drop.toFixed(3)} without this word`}>
        {word.word}
        <span class="unseen">{against ? ` (counts against it, ${percent(share)})` : ` (${percent(share)} of the strongest word)`}</span>
      </mark>,
    );
    at = word.end;
  }
  if (at < encoded.length) parts.push(piece(at, encoded.length));
  return <p class="words">{parts}</p>;
}
