// Chips above the grid: facets with their counts, the filter language, order, near-duplicates.
import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import type { Facet } from "./api";
import { CloseIcon, DownIcon, FilterIcon } from "./icons";
import { type State, initial, secondHits } from "./state";
import { count } from "./text";

// A chip that opens a panel beneath it; Escape and a click elsewhere close it.
function Popover({ label, active, icon, children }: {
  label: string;
  active: boolean;
  icon?: ComponentChildren;
  children: (close: () => void) => ComponentChildren;
}) {
  const [open, setOpen] = useState(false);
  const [shift, setShift] = useState(0);
  const root = useRef<HTMLDivElement>(null);
  const button = useRef<HTMLButtonElement>(null);
  const panel = useRef<HTMLDivElement>(null);
  const id = useId();
  const close = () => {
    setOpen(false);
    button.current?.focus();
  };
  useEffect(() => {
    if (!open) return;
    // Within the window, whichever chip it hangs from.
    const box = panel.current!.getBoundingClientRect();
    const room = document.documentElement.clientWidth - 12;
    if (box.right > room) setShift(room - box.right);
    panel.current!.querySelector<HTMLElement>("input, button")?.focus();
    const outside = (event: PointerEvent) => {
      if (!root.current?.contains(event.target as Node)) setOpen(false);
    };
    document.addEventListener("pointerdown", outside);
    return () => document.removeEventListener("pointerdown", outside);
  }, [open]);
  return (
    <div
      class="popover"
      ref={root}
      onKeyDown={(event) => {
        if (event.key === "Escape" && open) {
          event.stopPropagation();
          close();
        }
      }}
    >
      <button
        ref={button}
        type="button"
        class={`chip ${active ? "on" : ""}`}
        aria-expanded={open}
        aria-controls={open ? id : undefined}
        onClick={() => {
          setShift(0);
          setOpen(!open);
        }}
      >
        {icon}
        {label}
        <DownIcon />
      </button>
      {open && (
        <div class="panel" id={id} ref={panel} role="group" aria-label={label} style={{ transform: `translateX(${shift}px)` }}>
          {children(close)}
        </div>
      )}
    </div>
  );
}

const titles: Record<string, string> = { folder: "Folder", format: "Format", date: "Date", size: "Size", shape: "Shape", place: "Place", camera: "Camera", keyword: "Keyword" };
const valueTitles: Record<string, string> = {
  small: "Small, under 0.1 megapixels",
  medium: "Medium",
  large: "Large, 2 megapixels and more",
  tall: "Tall",
  square: "Square",
  wide: "Wide",
};
const title = (facet: string) => titles[facet] ?? facet;
const months = ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"];
function valueTitle(facet: string, name: string): string {
  if (facet === "date" && /^\d{4}-\d{2}$/.test(name)) return `${months[Number(name.slice(5)) - 1]} ${name.slice(0, 4)}`;
  if (facet === "format") return name.toUpperCase();
  return valueTitles[name] ?? name;
}
const shortTitle = (facet: string, name: string) => valueTitle(facet, name).replace(/,.*/, "");

function FilterLanguage({ filter, error, onFilter }: { filter: string; error: string | null; onFilter: (filter: string) => void }) {
  const [text, setText] = useState(filter);
  const id = useId();
  return (
    <form
      class="language"
      onSubmit={(event) => {
        event.preventDefault();
        onFilter(text);
      }}
    >
      <label for={id}>Conditions on size, date, place, camera, format, path and caption</label>
      <input id={id} type="text" value={text} spellcheck={false} autocomplete="off" autocapitalize="off"
        aria-describedby={`${id}-more`} aria-invalid={error !== null} onInput={(event) => setText(event.currentTarget.value)} />
      <p class={error ? "wrong" : "hint"} id={`${id}-more`} role={error ? "alert" : undefined}>
        {error ?? "For example"}
      </p>
      {!error && (
        <ul class="examples">
          {["width>=640 and format=jpeg", 'path~"*holiday*" or date>=2024-06', "place~Paris and camera~Canon", "caption~*cat* and not size>2MB"].map((example) => (
            <li key={example}>
              <button type="button" onClick={() => setText(example)}>
                <code>{example}</code>
              </button>
            </li>
          ))}
        </ul>
      )}
      <button class="main" type="submit">Apply</button>
    </form>
  );
}

const shares = [
  [0, "What they show", "Names and captions do not count"],
  [0.5, "Both", "What pictures show, and what they are called"],
  [0.9, "What they are called", "Names, folders and captions first"],
] as const;

export function Filters({ state, facets, error, searching, named: byName, tells, folds, seconds, change, children }: {
  state: State;
  facets: Facet[];
  error: string | null; // of the typed filter
  searching: boolean;
  named: boolean; // whether names and captions play a part
  tells: boolean; // whether hits have a match probability
  folds: boolean;
  seconds: string[]; // models that may look at the hits again
  change: (change: Partial<State>) => void;
  children?: ComponentChildren; // more chips
}) {
  const toggle = (filter: string) =>
    change({
      chosen: state.chosen.includes(filter) ? state.chosen.filter((one) => one !== filter) : [...state.chosen, filter],
    });
  const named = (filter: string) => {
    for (const facet of facets) {
      const value = facet.values.find((one) => one.filter === filter);
      if (value) return shortTitle(facet.name, value.name);
    }
    return filter;
  };
  return (
    <div class="filters" role="group" aria-label="Filters">
      {facets.map((facet) => (
        <Popover key={facet.name} label={title(facet.name)} active={facet.values.some((value) => state.chosen.includes(value.filter))}>
          {() => (
            <ul class="values">
              {facet.values.map((value) => (
                <li key={value.filter}>
                  <label>
                    <input type="checkbox" checked={state.chosen.includes(value.filter)} onChange={() => toggle(value.filter)} />
                    <span class="value-name">{valueTitle(facet.name, value.name)}</span>
                    <span class="value-count">{count(value.items)}</span>
                  </label>
                </li>
              ))}
            </ul>
          )}
        </Popover>
      ))}
      <Popover label="Filter" active={state.filter !== ""} icon={<FilterIcon />}>
        {(close) => (
          <FilterLanguage filter={state.filter} error={error} onFilter={(filter) => {
            change({ filter });
            if (!filter) close();
          }} />
        )}
      </Popover>
      {searching && (
        <>
          <span class="rule" aria-hidden="true" />
          {byName && (
            <Popover label="Words" active={state.names !== initial.names}>
              {() => (
                <fieldset class="shares">
                  <legend>Find pictures by</legend>
                  {shares.map(([share, label, hint]) => (
                    <label key={share}>
                      <input type="radio" name="names" checked={Math.abs(state.names - share) < 0.05} onChange={() => change({ names: share })} />
                      <span>
                        {label}
                        <span class="hint">{hint}</span>
                      </span>
                    </label>
                  ))}
                </fieldset>
              )}
            </Popover>
          )}
          {seconds.length > 0 && (
            <Popover label="Second look" active={state.second !== ""}>
              {() => (
                <fieldset class="shares">
                  <legend>{`Look at the best ${secondHits} pictures again`}</legend>
                  {["", ...seconds].map((name) => (
                    <label key={name}>
                      <input type="radio" name="second" checked={state.second === name}
                        onChange={() => change({ second: name, ...(name ? { byDate: false, likely: false } : {}) })} />
                      <span>
                        {name ? `With ${name}` : "No"}
                        <span class="hint">{name ? "This model puts them in its order, which takes longer" : "They stay in the order in which they were found"}</span>
                      </span>
                    </label>
                  ))}
                </fieldset>
              )}
            </Popover>
          )}
          <button type="button" class={`chip ${state.byDate ? "on" : ""}`} aria-pressed={state.byDate}
            title="The best matches, newest first" onClick={() => change({ byDate: !state.byDate, second: "" })}>
            Newest first
          </button>
          {(folds || !state.fold) && (
            <button type="button" class={`chip ${state.fold ? "" : "on"}`} aria-pressed={!state.fold}
              title="Show near-duplicates one by one" onClick={() => change({ fold: !state.fold })}>
              Near-duplicates
            </button>
          )}
          {(tells || state.likely) && (
            <button type="button" class={`chip ${state.likely ? "on" : ""}`} aria-pressed={state.likely}
              title="Leave out weak matches" onClick={() => change({ likely: !state.likely, second: "" })}>
              Likely only
            </button>
          )}
        </>
      )}
      {children}
      {(state.chosen.length > 0 || state.filter) && (
        <ul class="chosen" aria-label="Chosen filters">
          {state.chosen.map((filter) => (
            <li key={filter}>
              <button type="button" class="chip on" onClick={() => toggle(filter)} aria-label={`Remove the filter ${named(filter)}`}>
                {named(filter)}
                <CloseIcon />
              </button>
            </li>
          ))}
          {state.filter && (
            <li>
              <button type="button" class="chip on" onClick={() => change({ filter: "" })} aria-label={`Remove the filter ${state.filter}`}>
                <code>{state.filter}</code>
                <CloseIcon />
              </button>
            </li>
          )}
          <li>
            <button type="button" class="chip quiet" onClick={() => change({ chosen: [], filter: "" })}>
              Clear all
            </button>
          </li>
        </ul>
      )}
    </div>
  );
}
