// All kernels of a product: sorted by the buttons in the heads, filtered by words and conditions, a page at a time.
const table = (() => {
  const PAGE = 50;
  const get = id => document.getElementById(id);
  const [element, filter, verdict, count, pageOf, back, next] =
    ['table', 'filter', 'verdict', 'count', 'page-of', 'back', 'next'].map(get);
  let product = null, columns = [], sort = null, page = 0;

  const all = () => document.querySelectorAll(`[data-product="${product.index}"] .lesson`);

  const digits = number => {
    const size = Math.abs(number);
    return size >= 100 ? number.toFixed(0) : size >= 10 ? number.toFixed(1) : number.toFixed(2);
  };
  const given = (value, show) => value === null || value === undefined ? '' : show(value);
  const place = (row, axis) => row.at === null ? null : row.at[axis];

  const columnsOf = product => [
    { name: '#', title: 'place among all, best first', value: row => row.place, show: row => row.place, number: true },
    ...product.axes.map((axis, at) => ({
      name: axis.key, title: axis.meaning,
      value: row => place(row, at),
      show: row => given(place(row, at), value => axis.values[value]),
      number: axis.values.every(value => value === 'auto' || /^\d+$/.test(value)),
    })),
    { name: 'verdict', value: row => row.verdict, show: row => row.verdict, kind: 'verdict' },
    { name: 'us', title: 'microseconds, the median', value: row => row.us, show: row => given(row.us, digits), number: true },
    { name: '±', title: 'half the 95 % confidence interval of the median', value: row => row.ci,
      show: row => given(row.ci, ci => `${(100 * ci).toFixed(1)} %`), number: true },
    ...[
      { name: 'kcycles', title: 'thousands of cycles: the time by the clock', key: 'kilocycles', show: digits },
      { name: 'MHz', title: 'the clock of the multiprocessors, the median while these kernels took turns', key: 'mhz', show: String },
      { name: 'W', title: 'the mean power while these kernels took turns', key: 'watts', show: watts => watts.toFixed(0) },
    ].filter(({ key }) => product.rows.some(row => row[key] !== null)).map(({ name, title, key, show }) => ({
      name, title, value: row => row[key], show: row => given(row[key], show), number: true,
    })),
    { name: 'TFLOP/s', value: row => row.tflops, show: row => given(row.tflops, digits), number: true, best: 'descending' },
    { name: 'ratio', title: 'to the dense library on as many operations', value: row => row.ratio,
      show: row => given(row.ratio, ratio => ratio.toFixed(3)), number: true, kind: 'ratio', best: 'descending' },
    { name: 'limit', title: 'the nearest roof, and how much of the time it explains', value: row => row.limit,
      show: row => row.limit || '', kind: 'limit' },
    { name: 'predicted', title: 'microseconds, by the cost model', value: row => row.predicted,
      show: row => given(row.predicted, digits), number: true },
    { name: 'error', title: 'relative, against the f64 reference', value: row => row.error,
      show: row => given(row.error, error => error.toExponential(1)), number: true },
    { name: 'what happened', value: row => row.why, show: row => row.why || '', kind: 'why' },
    { name: 'attribute', value: row => row.name, show: () => '', kind: 'paste' },
  ];

  const compare = (a, b) => typeof a === 'number' && typeof b === 'number' ? a - b : String(a) < String(b) ? -1 : a === b ? 0 : 1;

  // A condition of the filter: a word in the row, or a comparison of what a key or a column says.
  const condition = word => {
    const [, name, sign, wanted] = /^([a-z_]+)(<=|>=|=|<|>)(.+)$/i.exec(word) || [];
    const axis = product.axes.findIndex(axis => axis.key === name);
    const column = ['us', 'ratio', 'tflops', 'predicted', 'error', 'verdict'].find(column => column === name);
    if (axis < 0 && !column) return row => row.text.includes(word.toLowerCase());
    return row => {
      const said = axis >= 0 ? given(place(row, axis), at => product.axes[axis].values[at]) : row[column];
      if (said === '' || said === null || said === undefined) return false;
      if (sign === '=') return String(said).toLowerCase() === wanted.toLowerCase() || Number(said) === Number(wanted);
      const [left, right] = [Number(said), Number(wanted)];
      return sign === '<' ? left < right : sign === '>' ? left > right : sign === '<=' ? left <= right : left >= right;
    };
  };

  const found = () => {
    const words = filter.value.replace(/\s*(<=|>=|=|<|>)\s*/g, '$1').split(/[\s,]+/).filter(word => word);
    const conditions = words.map(condition);
    const rows = product.rows.filter(row =>
      (!verdict.value || row.verdict === verdict.value) && conditions.every(holds => holds(row)));
    const { value } = columns[sort.column], sign = sort.order === 'ascending' ? 1 : -1;
    // What has no value comes last, whichever way.
    const missing = row => value(row) === null || value(row) === undefined;
    return rows.sort((a, b) => missing(a) - missing(b) || (missing(a) ? 0 : sign * compare(value(a), value(b))) || a.place - b.place);
  };

  const cell = (column, row, most) => {
    const td = document.createElement('td');
    td.textContent = column.show(row);
    if (column.number) td.classList.add('number');
    if (column.kind) td.classList.add(column.kind);
    if (column.kind === 'verdict') td.classList.add(row.verdict);
    if (column.kind === 'ratio' && row.ratio !== null && most > 0) td.style.setProperty('--part', `${100 * row.ratio / most}%`);
    if (column.kind === 'paste' && !row.baseline) td.append(copy(row));
    return td;
  };

  // What a kernel teaches is shown when its row is clicked, or entered.
  const lessons = {
    has: name => [...all()].some(lesson => lesson.dataset.lesson === name),
    show: name => {
      for (const lesson of all()) lesson.hidden = lesson.dataset.lesson !== name;
      for (const tr of element.tBodies[0].rows) tr.classList.toggle('shown', tr.dataset.name === name);
    },
    open: (tr, name) => {
      tr.dataset.name = name;
      tr.classList.add('teaches');
      tr.tabIndex = 0;
      tr.title = 'what this kernel teaches';
      const open = event => {
        if (event.target.closest('button') || (event.key && event.key !== 'Enter')) return;
        lessons.show(name);
        get('lesson').scrollIntoView({ block: 'start' });
      };
      tr.addEventListener('click', open);
      tr.addEventListener('keydown', open);
    },
  };

  const copy = row => {
    const button = document.createElement('button');
    button.type = 'button';
    button.className = 'copy';
    button.textContent = 'copy';
    button.title = row.name;
    button.dataset.copy = data.attribute.join(row.name);
    button.setAttribute('aria-label', `Copy the attribute ${row.name}`);
    return button;
  };

  const draw = () => {
    const rows = found(), pages = Math.max(1, Math.ceil(rows.length / PAGE));
    page = Math.min(page, pages - 1);
    const most = Math.max(0, ...product.rows.map(row => row.ratio || 0));
    element.tBodies[0].replaceChildren(...rows.slice(page * PAGE, (page + 1) * PAGE).map(row => {
      const tr = document.createElement('tr');
      if (row.baseline) tr.className = 'baseline';
      else if (lessons.has(row.name)) lessons.open(tr, row.name);
      const cells = columns.map(column => cell(column, row, most));
      if (row.at === null) {
        // It has no keys: its name stands where they would.
        const name = document.createElement('td');
        name.textContent = row.name;
        name.className = 'names';
        name.colSpan = Math.max(1, product.axes.length);
        cells.splice(1, product.axes.length, name);
      }
      tr.append(...cells);
      return tr;
    }));
    count.textContent = `${rows.length} of ${product.rows.length}`;
    pageOf.textContent = `${page + 1} / ${pages}`;
    back.disabled = page === 0;
    next.disabled = page === pages - 1;
    for (const [at, th] of [...element.tHead.rows[0].cells].entries()) {
      th.setAttribute('aria-sort', at === sort.column ? sort.order : 'none');
    }
  };

  const show = (chosen, index) => {
    product = { ...chosen, index };
    columns = columnsOf(product);
    sort = { column: 0, order: 'ascending' };
    page = 0;
    filter.value = '';
    for (const [at, row] of product.rows.entries()) {
      row.place = at + 1;
      row.text = `${row.name} ${row.verdict} ${row.why || ''}`.toLowerCase();
    }
    const head = document.createElement('tr');
    head.append(...columns.map((column, at) => {
      const th = document.createElement('th'), button = document.createElement('button');
      th.scope = 'col';
      if (column.number) th.className = 'number';
      button.type = 'button';
      button.textContent = column.name;
      if (column.title) button.title = column.title;
      button.addEventListener('click', () => {
        const first = column.best || 'ascending', other = first === 'ascending' ? 'descending' : 'ascending';
        sort = { column: at, order: sort.column === at && sort.order === first ? other : first };
        page = 0;
        draw();
      });
      th.append(button);
      return th;
    }));
    element.tHead.replaceChildren(head);
    const verdicts = [...new Set(product.rows.map(row => row.verdict))];
    verdict.replaceChildren(...['', ...verdicts].map(word => new Option(word || 'all', word)));
    draw();
  };

  const again = () => { page = 0; draw(); };
  filter.addEventListener('input', again);
  verdict.addEventListener('change', again);
  get('controls').addEventListener('submit', event => event.preventDefault());
  back.addEventListener('click', () => { page -= 1; draw(); });
  next.addEventListener('click', () => { page += 1; draw(); });
  return { show, filter: words => { filter.value = words; again(); } };
});
