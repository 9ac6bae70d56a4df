// The one field: words, a picture, or a picture and words.
import type { Ref } from "preact";
import { useRef } from "preact/hooks";
import { CloseIcon, PictureIcon, SearchIcon } from "./icons";

export function SearchField({ inputRef, text, picture, pictureName, onText, onEnter, onPicture, onNoPicture, busy }: {
  inputRef: Ref<HTMLInputElement>;
  text: string;
  picture: string | null; // its address; null: none
  pictureName: string;
  onText: (text: string) => void;
  onEnter: () => void;
  onPicture: (file: File) => void;
  onNoPicture: () => void;
  busy: boolean;
}) {
  const file = useRef<HTMLInputElement>(null);
  return (
    <form
      class="field"
      role="search"
      onSubmit={(event) => {
        event.preventDefault();
        onEnter();
      }}
    >
      <span class={`field-icon ${busy ? "busy" : ""}`}>
        <SearchIcon />
      </span>
      {picture && (
        <span class="reference">
          <img src={picture} alt={pictureName} width="36" height="36"
            onLoad={(event) => event.currentTarget.classList.remove("gone")}
            onError={(event) => event.currentTarget.classList.add("gone")} />
          <button type="button" onClick={onNoPicture} aria-label={`Search without ${pictureName}`} title="Remove">
            <CloseIcon />
          </button>
        </span>
      )}
      <input
        ref={inputRef}
        type="search"
        name="q"
        value={text}
        placeholder={picture ? "… but blue, with a hat, at night" : "Search your pictures"}
        aria-label={picture ? "This picture, but …" : "Search your pictures"}
        autocomplete="off"
        autocapitalize="off"
        spellcheck={false}
        enterkeyhint="search"
        onInput={(event) => onText(event.currentTarget.value)}
      />
      {text && (
        <button type="button" class="plain" onClick={() => onText("")} aria-label="Clear the words" title="Clear">
          <CloseIcon />
        </button>
      )}
      <button type="button" class="plain" onClick={() => file.current?.click()} aria-label="Search by a picture"
        title="Search by a picture: choose one, drop one, or paste one">
        <PictureIcon />
      </button>
      <input
        ref={file}
        type="file"
        accept="image/*"
        class="hidden"
        tabIndex={-1}
        aria-label="A picture to search by"
        onChange={(event) => {
          const chosen = event.currentTarget.files?.[0];
          if (chosen) onPicture(chosen);
          event.currentTarget.value = "";
        }}
      />
    </form>
  );
}
