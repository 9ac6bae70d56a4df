#include "saccade/pages/page_style.h"

namespace saccade {

std::string_view page_style() {
  return R"css(
:root { color-scheme: light dark;
  --page: #f6f6f4; --card: #ffffff; --line: #e2e1dc; --text: #1d1d1b; --soft: #63625c;
  --accent: #0b6b5c; --warn: #8a4b00; --warn-page: #fff3df; --s0: #0b7a6e; --s1: #c2512f; --s2: #3f5bb5;
  --s3: #9a7400; --s4: #8e4585; --s5: #4e7d22; --s6: #2b86b8; --s7: #6d6d68; }
@media (prefers-color-scheme: dark) { :root:not([data-theme="light"]) {
  --page: #161716; --card: #202221; --line: #343736; --text: #ececea; --soft: #a5a49d;
  --accent: #5fc7b3; --warn: #f2c078; --warn-page: #33281a; --s0: #4fc3ae; --s1: #f0896c; --s2: #93a8ff;
  --s3: #e0b84f; --s4: #d694d2; --s5: #9ccb69; --s6: #72c4ee; --s7: #aeb0ab; } }
:root[data-theme="light"] { color-scheme: light; }
:root[data-theme="dark"] { color-scheme: dark;
  --page: #161716; --card: #202221; --line: #343736; --text: #ececea; --soft: #a5a49d;
  --accent: #5fc7b3; --warn: #f2c078; --warn-page: #33281a; --s0: #4fc3ae; --s1: #f0896c; --s2: #93a8ff;
  --s3: #e0b84f; --s4: #d694d2; --s5: #9ccb69; --s6: #72c4ee; --s7: #aeb0ab; }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--text); font: 15px/1.45 system-ui, -apple-system,
  "Segoe UI", Roboto, "Noto Sans", sans-serif; }
main, body > header, body > footer { max-width: 1400px; margin: 0 auto; padding: 0 24px; }
body > header { padding-top: 28px; }
body > header h1 { margin: 0; font-size: 20px; font-weight: 650; letter-spacing: -.01em; }
.soft, body > footer { color: var(--soft); }
body > header p { margin: 2px 0 0; overflow-wrap: anywhere; }
nav ul { display: flex; flex-wrap: wrap; gap: 8px; list-style: none; margin: 16px 0 0; padding: 0; }
nav a { display: block; padding: 3px 12px; border: 1px solid var(--line); border-radius: 99px;
  background: var(--card); color: inherit; text-decoration: none; overflow-wrap: anywhere; }
nav a:hover, nav a:focus-visible { border-color: var(--accent); }
.thumb { position: relative; display: flex; align-items: center; justify-content: center; aspect-ratio: 1;
  overflow: hidden;  background: var(--page); color: inherit; text-decoration: none; }
.thumb img { width: 100%; height: 100%; object-fit: contain; }
.thumb.light { background: #fff; }
.thumb.dark { background: #202020; }
.thumb.light img, .thumb.dark img { padding: 8%; }
.thumb span { padding: 12px; text-align: center; font-size: 13px; color: var(--soft); overflow-wrap:
  anywhere; }
a.thumb:focus-visible { outline: 3px solid var(--accent); outline-offset: -3px; }
body > footer { padding-top: 32px; padding-bottom: 32px; font-size: 13px; }
)css";
}

}  // namespace saccade
