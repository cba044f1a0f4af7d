'use strict';
// Light and dark: as the system says, until the switch says otherwise; remembered where the browser lets a file remember.
const theme = (() => {
  const root = document.documentElement, button = document.getElementById('theme');
  const system = matchMedia('(prefers-color-scheme: dark)');
  const heard = [];
  const stored = (() => { try { return localStorage.getItem('bsr-theme'); } catch { return null; } })();
  if (stored === 'light' || stored === 'dark') root.dataset.theme = stored;
  const isDark = () => (root.dataset.theme || (system.matches ? 'dark' : 'light')) === 'dark';
  const tell = () => {
    button.textContent = isDark() ? 'light' : 'dark';
    for (const listener of heard) listener();
  };
  button.addEventListener('click', () => {
    root.dataset.theme = isDark() ? 'light' : 'dark';
    try { localStorage.setItem('bsr-theme', root.dataset.theme); } catch { /* it is forgotten */ }
    tell();
  });
  system.addEventListener('change', tell);
  button.textContent = isDark() ? 'light' : 'dark';
  const probe = document.createElement('span');
  probe.hidden = true;
  document.body.append(probe);
  // A colour of the style sheet as plotly understands it.
  const colour = name => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  };
  return { isDark, colour, onChange: listener => heard.push(listener) };
})();
