// Line icons of 24 units, drawn for this page.
import type { JSX } from "preact";

const icon = (body: JSX.Element) =>
  function Icon() {
    return (
      <svg class="icon" viewBox="0 0 24 24" aria-hidden="true" focusable="false">
        {body}
      </svg>
    );
  };

export const SearchIcon = icon(<path d="M10.5 17a6.5 6.5 0 1 0 0-13 6.5 6.5 0 0 0 0 13Zm4.8-1.7L20 20" />);
export const PictureIcon = icon(
  <path d="M5 5h14a1 1 0 0 1 1 1v12a1 1 0 0 1-1 1H5a1 1 0 0 1-1-1V6a1 1 0 0 1 1-1Zm-.6 12.5 4.9-5 3.4 3.4 2.6-2.4 4.3 4M9 10.2a1.2 1.2 0 1 1-2.4 0 1.2 1.2 0 0 1 2.4 0Z" />,
);
export const CloseIcon = icon(<path d="m6 6 12 12M18 6 6 18" />);
export const LikeIcon = icon(
  <path d="M4 8.5V5.5A1.5 1.5 0 0 1 5.5 4h3m7 0h3A1.5 1.5 0 0 1 20 5.5v3m0 7v3a1.5 1.5 0 0 1-1.5 1.5h-3m-7 0h-3A1.5 1.5 0 0 1 4 18.5v-3M12 15a3 3 0 1 0 0-6 3 3 0 0 0 0 6Z" />,
);
export const ButIcon = icon(<path d="M4 20v-3.5L15.5 5a1.4 1.4 0 0 1 2 0L19 6.500a1.400 1.400 0 0 1 0 2L7.500 20H4Zm9.500-13 3.500 3.500M14 20h6" />);
export const OpenIcon = icon(<path d="M14 4h6v6m0-6-9 9M18 14v4.500a1.500 1.500 0 0 1-1.500 1.500h-11A1.500 1.500 0 0 1 4 18.500v-11A1.500 1.500 0 0 1 5.500 6H10" />);
export const DownloadIcon = icon(<path d="M12 4v11m0 0 4.500-4.500M12 15l-4.500-4.500M5 20h14" />);
export const PreviousIcon = icon(<path d="m14.500 5-7 7 7 7" />);
export const NextIcon = icon(<path d="m9.500 5 7 7-7 7" />);
export const DownIcon = icon(<path d="m6 9.500 6 6 6-6" />);
export const StackIcon = icon(<path d="M8 4h10.500A1.500 1.500 0 0 1 20 5.500V16M5.500 8h9A1.500 1.500 0 0 1 16 9.500v9a1.500 1.500 0 0 1-1.500 1.500h-9A1.500 1.500 0 0 1 4 18.500v-9A1.500 1.500 0 0 1 5.500 8Z" />);
export const WhyIcon = icon(<path d="M12 20a8 8 0 1 0 0-16 8 8 0 0 0 0 16Zm-2.200-9.700a2.200 2.200 0 1 1 3.300 1.900c-.700.400-1.100.800-1.100 1.600m0 2.300v.200" />);
export const FilterIcon = icon(<path d="M4 7h16M7 12h10m-7 5h4" />);
export const IndexIcon = icon(<path d="M4 7.500A1.500 1.500 0 0 1 5.500 6H9l2 2h7.500A1.500 1.500 0 0 1 20 9.500v8a1.500 1.500 0 0 1-1.500 1.500h-13A1.500 1.500 0 0 1 4 17.500v-10ZM12 11v5m-2.500-2.500L12 16l2.500-2.500" />);
export const AddIcon = icon(<path d="M12 5v14M5 12h14" />);
export const RemoveIcon = icon(<path d="M5 7h14M10 7V5h4v2m-7.500 0 .8 12h9.400l.8-12M10 11v5m4-5v5" />);
export const SunIcon = icon(<path d="M12 16a4 4 0 1 0 0-8 4 4 0 0 0 0 8Zm0-13v2m0 14v2m9-9h-2M5 12H3m15.400-6.400L17 7M7 17l-1.400 1.400m12.800 0L17 17M7 7 5.600 5.600" />);
export const MoonIcon = icon(<path d="M19.500 14.500A8 8 0 0 1 9.500 4.500a8 8 0 1 0 10 10Z" />);
export const AutoIcon = icon(<path d="M12 20a8 8 0 1 0 0-16 8 8 0 0 0 0 16Zm0-16v16m3-15.300v14.600m3-12.500v10.400" />);

export function Mark() {
  return (
    <svg class="mark" viewBox="0 0 32 32" aria-hidden="true" focusable="false">
      <path d="M4.500 21 12 10.500l7.500 9 6.500-8" />
      <circle cx="4.500" cy="21" r="2.200" />
      <circle cx="12" cy="10.500" r="2.200" />
      <circle cx="19.500" cy="19.500" r="2.200" />
      <circle cx="26.500" cy="11" r="3.800" class="now" />
    </svg>
  );
}
