// The page: which product is shown, and what is drawn again when it, the axes or the theme change.
const data = JSON.parse(document.getElementById('data').textContent);
(() => {
  const picker = document.getElementById('product');
  const [across, up] = ['heat-x', 'heat-y'].map(id => document.getElementById(id));
  const all = data.problems;
  let shown = 0;

  const overviews = () => {
    for (const plot of document.querySelectorAll('[data-kind]')) {
      const products = all.map((product, index) => ({ product, index })).filter(({ product }) => product.kind === plot.dataset.kind);
      plots.overview(plot.id, products);
    }
  };
  const rows = picker ? table() : null;
  const heat = () => plots.heat(all[shown], Number(across.value), Number(up.value), words => rows.filter(words));
  const draw = { heat, lines: () => plots.lines(all[shown]), scatter: () => plots.scatter(all[shown]) };
  // A plot is drawn when it is about to be seen: a page of thousands of kernels is there at once.
  const [near, stale] = [new Set(), new Set()];
  const redraw = () => {
    for (const id of [...stale].filter(id => near.has(id))) {
      stale.delete(id);
      draw[id]();
    }
  };
  const drawings = () => {
    for (const id of Object.keys(draw)) stale.add(id);
    redraw();
  };
  const sight = new IntersectionObserver(entries => {
    for (const { target, isIntersecting } of entries) near[isIntersecting ? 'add' : 'delete'](target.id);
    redraw();
  }, { rootMargin: '500px' });
  const show = index => {
    shown = index;
    picker.value = String(index);
    for (const part of document.querySelectorAll('[data-product]')) part.hidden = part.dataset.product !== picker.value;
    const product = all[index];
    for (const words of document.querySelectorAll('.measure')) words.textContent = product.measure;
    const keys = product.axes.map((axis, at) => [axis.key, at]);
    for (const [select, chosen] of [[across, 0], [up, Math.min(1, keys.length - 1)]]) {
      select.replaceChildren(...keys.map(([key, at]) => new Option(key, at, at === chosen, at === chosen)));
      select.disabled = keys.length < 2;
    }
    rows.show(product, index);
    drawings();
  };
  // A row of the overview links to its product.
  const linked = () => {
    const [, number] = /^#product-(\d+)$/.exec(location.hash) || [];
    if (!number || !all[number - 1]) return false;
    show(number - 1);
    document.getElementById('products').scrollIntoView();
    return true;
  };

  document.addEventListener('click', async event => {
    const button = event.target.closest('button[data-copy]');
    if (!button) return;
    const words = button.textContent;
    let done = true;
    try {
      await navigator.clipboard.writeText(button.dataset.copy);
    } catch {
      const area = document.createElement('textarea');
      area.value = button.dataset.copy;
      document.body.append(area);
      area.select();
      done = document.execCommand('copy');
      area.remove();
    }
    button.textContent = done ? 'copied' : 'select it';
    setTimeout(() => { button.textContent = words; }, 1200);
  });

  overviews();
  theme.onChange(overviews);
  // Labels are shorter where there is less room.
  matchMedia('(max-width: 700px)').addEventListener('change', overviews);
  if (picker) {
    picker.addEventListener('change', () => { history.replaceState(null, '', `#product-${Number(picker.value) + 1}`); show(Number(picker.value)); });
    across.addEventListener('change', heat);
    up.addEventListener('change', heat);
    addEventListener('hashchange', linked);
    addEventListener('beforeprint', () => { for (const id of Object.keys(draw)) near.add(id); redraw(); });
    for (const id of Object.keys(draw)) sight.observe(document.getElementById(id));
    if (!linked()) show(0);
    theme.onChange(drawings);
  }
  document.documentElement.dataset.ready = String(Math.round(performance.now()));
})();
