// The plots. All colours are the style sheet's; the best always stands out most from the paper.
const plots = (() => {
  const VIRIDIS = ['#440154', '#482878', '#3e4989', '#31688e', '#26828e', '#1f9e89', '#35b779', '#6ece58', '#b5de2b', '#fde725'];
  const get = id => document.getElementById(id);
  // plotly reads a little HTML in its words: data have none.
  const plain = text => String(text).replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/>/g, '&gt;');
  const narrow = () => document.body.clientWidth < 700;
  const scale = () => {
    // Yellow is lost on white, and violet on black: the far end is left out.
    const colours = theme.isDark() ? VIRIDIS.slice(1) : VIRIDIS.slice(0, -1).reverse();
    return colours.map((colour, at) => [at / (colours.length - 1), colour]);
  };
  const axis = more => ({
    gridcolor: theme.colour('rule'), zerolinecolor: theme.colour('rule'), linecolor: theme.colour('rule'),
    tickcolor: theme.colour('rule'), automargin: true, fixedrange: false, ...more,
  });
  const layout = more => ({
    paper_bgcolor: 'rgba(0,0,0,0)', plot_bgcolor: 'rgba(0,0,0,0)',
    font: { family: 'system-ui, "Liberation Sans", sans-serif', size: 12.5, color: theme.colour('ink') },
    margin: { l: 8, r: 12, t: 34, b: 8 }, modebar: { bgcolor: 'rgba(0,0,0,0)', color: theme.colour('faint'), activecolor: theme.colour('ink') }, hoverlabel: { align: 'left', font: { family: 'ui-monospace, monospace', size: 12 } },
    legend: { orientation: 'h', x: 0, y: 1.01, yanchor: 'bottom', itemwidth: 30 }, ...more,
  });
  const CONFIG = {
    displaylogo: false, responsive: true,
    modeBarButtonsToRemove: ['select2d', 'lasso2d', 'autoScale2d', 'zoomIn2d', 'zoomOut2d', 'zoom2d', 'pan2d', 'sendDataToCloud'],
  };
  const draw = (id, traces, more) => Plotly.react(get(id), traces, layout(more), CONFIG);
  const nothing = (id, words) => {
    Plotly.purge(get(id));
    const p = document.createElement('p');
    p.className = 'none';
    p.textContent = words;
    get(id).replaceChildren(p);
    get(id).classList.add('empty');
  };
  const clear = id => {
    if (get(id).querySelector('.none')) get(id).replaceChildren();
    get(id).classList.remove('empty');
  };

  // TFLOP/s of the best of ours, of the dense library, of others, and the roof, for every product on one kind of device.
  const overview = (id, products) => {
    const at = products.map((_, place) => place);
    const trace = (name, values, marker, texts) => ({
      type: 'scatter', mode: 'markers', name, x: values, y: at, text: texts,
      marker: { size: 12, ...marker }, hovertemplate: '%{x:.4g} TFLOP/s<extra>%{text}</extra>',
    });
    const of = (what, words) => [products.map(({ product }) => product.overview[what]), products.map(() => words)];
    const [ours, oursText] = of('ours', 'bsr'), [dense, denseText] = of('dense', 'dense library, equal operations');
    const [roof, roofText] = of('roof', 'roof');
    const traces = [
      trace('roof', roof, { symbol: 'line-ns', size: 20, line: { width: 3, color: theme.colour('faint') } }, roofText),
      trace('dense library, equal operations', dense, { symbol: 'diamond-open', color: theme.colour('warn'), line: { width: 2 } }, denseText),
    ];
    const others = products.flatMap(({ product }, place) => product.overview.others.map(([name, value]) => [name, value, place]));
    if (others.length) {
      traces.push({
        ...trace('others, same product', others.map(other => other[1]), { symbol: 'x-thin', size: 9, line: { width: 2, color: theme.colour('bad') } },
          others.map(other => plain(other[0]))), y: others.map(other => other[2]),
      });
    }
    traces.push(trace('bsr', ours, { symbol: 'circle', color: theme.colour('link') }, oursText));
    const short = title => title.length > 52 ? `${title.slice(0, 50)}…` : title;
    const label = ({ product, index }) => narrow() ? `${index + 1}` : `${plain(short(product.title))}  <b>${index + 1}</b>`;
    draw(id, traces.filter(trace => trace.x.some(value => value !== null)), {
      xaxis: axis({ title: { text: 'TFLOP/s on stored blocks' }, rangemode: 'tozero', nticks: narrow() ? 4 : 10, tickangle: 0 }),
      yaxis: axis({ tickvals: at, ticktext: products.map(label), range: [products.length - 0.4, -0.6], zeroline: false, fixedrange: true }),
    });
  };

  const heat = (product, x, y, clicked) => {
    clear('heat');
    if (product.axes.length < 2) return nothing('heat', 'Fewer than two keys vary.');
    const [across, up] = [product.axes[x], product.axes[y]];
    const cells = up.values.map(() => across.values.map(() => ({ best: null, name: '', all: 0, failed: 0 })));
    for (const row of product.rows) {
      if (row.at === null || row.at[x] === null || row.at[y] === null) continue;
      const cell = cells[row.at[y]][row.at[x]];
      cell.all += 1;
      if (row.score === null) cell.failed += 1;
      else if (cell.best === null || row.score > cell.best) [cell.best, cell.name] = [row.score, row.name];
    }
    const short = value => value >= 100 ? value.toFixed(0) : String(Number(value.toPrecision(3)));
    const each = what => cells.map(line => line.map(what));
    const many = across.values.length > (narrow() ? 6 : 14);
    const said = cell => cell.best === null ? (cell.all ? 'none timed' : '') : short(cell.best);
    const empty = cells.flatMap((line, i) => line.flatMap((cell, j) => cell.best === null && cell.all ? [[j, i]] : []));
    const traces = [{
      type: 'heatmap', z: each(cell => cell.best), text: each(said), texttemplate: many ? '' : '%{text}', colorscale: scale(),
      xgap: 2, ygap: 2, hoverongaps: false, colorbar: { title: { text: product.measure, side: 'right' }, thickness: 12, outlinewidth: 0 },
      customdata: each(cell => [plain(cell.name), cell.all, cell.failed]),
      hovertemplate: '<b>%{z:.4g}</b>  %{customdata[0]}<br>%{customdata[1]} kernels, %{customdata[2]} without a time<extra></extra>',
    }, {
      // Where everything failed there is no colour, and it must not look like what was never tried.
      type: 'scatter', mode: 'markers', x: empty.map(at => at[0]), y: empty.map(at => at[1]), showlegend: false,
      marker: { symbol: 'x-thin', size: 10, line: { width: 1.5, color: theme.colour('bad') } },
      text: empty.map(([j, i]) => `${cells[i][j].all} kernels, none timed`), hovertemplate: '%{text}<extra></extra>',
    }];
    const places = of => ({ tickvals: of.values.map((_, at) => at), ticktext: of.values.map(plain), zeroline: false, showgrid: false });
    draw('heat', traces, {
      xaxis: axis({ title: { text: across.key }, range: [-0.5, across.values.length - 0.5], ...places(across) }),
      yaxis: axis({ title: { text: up.key }, range: [-0.5, up.values.length - 0.5], ...places(up) }),
    });
    get('heat').removeAllListeners?.('plotly_click');
    get('heat').on('plotly_click', ({ points: [point] }) =>
      clicked(`${across.key}=${across.values[Math.round(point.x)]} ${up.key}=${up.values[Math.round(point.y)]}`));
  };

  // Lines beyond which nobody sees more, and a browser without a GPU draws for seconds.
  const LINES = 2000;
  let webgl = null;
  const hasWebgl = () => {
    if (webgl === null) {
      try { webgl = Boolean(document.createElement('canvas').getContext('webgl')); } catch { webgl = false; }
    }
    return webgl;
  };

  // The same lines without WebGL: as many traces as there are colours, each with gaps between its kernels.
  const flat = (dimensions, scores, rows) => {
    const [least, most] = [Math.min(...scores), Math.max(...scores)];
    const part = score => most > least ? (score - least) / (most - least) : 1;
    const ranges = dimensions.map(({ range, values }) => range || [Math.min(...values), Math.max(...values)]);
    const height = (value, [from, to]) => to > from ? (value - from) / (to - from) : 0.5;
    const colours = scale();
    const traces = colours.map(([, colour]) => ({
      type: 'scatter', mode: 'lines', x: [], y: [], text: [], line: { color: colour, width: 1.2 }, showlegend: false,
      hovertemplate: '%{text}<extra></extra>',
    }));
    rows.forEach((row, at) => {
      const { x, y, text } = traces[Math.round(part(scores[at]) * (colours.length - 1))];
      dimensions.forEach(({ values }, place) => { x.push(place); y.push(height(values[at], ranges[place])); text.push(plain(row.name)); });
      x.push(null); y.push(null); text.push('');
    });
    const words = (place, at, text) => ({
      x: place, y: at, text: plain(text), showarrow: false, xanchor: 'right', xshift: -6, font: { size: 11 },
      bgcolor: theme.colour('paper'), borderpad: 1, opacity: 0.85,
    });
    const last = dimensions.length - 1;
    const labels = dimensions.flatMap(({ tickvals, ticktext }, place) => (tickvals || ranges[place]).map((value, at) =>
      words(place, height(value, ranges[place]), ticktext ? ticktext[at] : value.toPrecision(3))));
    draw('lines', traces.filter(trace => trace.x.length), {
      margin: { l: 60, r: 20, t: 46, b: 16 }, annotations: labels,
      xaxis: axis({ range: [-0.1, last + 0.1], tickvals: dimensions.map((_, at) => at), ticktext: dimensions.map(({ label }) => label),
        side: 'top', zeroline: false, fixedrange: true }),
      yaxis: axis({ visible: false, range: [-0.05, 1.05], fixedrange: true }),
    });
  };

  const lines = product => {
    clear('lines');
    const all = product.rows.filter(row => row.at !== null && row.score !== null && row.at.every(place => place !== null));
    const rows = all.slice(0, LINES);
    const most = all.length > LINES ? `These are the best ${LINES} of ${all.length}. ` : '';
    get('lines-words').textContent = hasWebgl() ? most : `${most}This browser has no WebGL: nothing can be dragged.`;
    if (!rows.length || !product.axes.length) return nothing('lines', 'No key varies among kernels with times.');
    rows.sort((a, b) => a.score - b.score);
    // Equal values are spread a little, by their order, so that lines do not cover one another.
    const spread = (place, at) => place + 0.3 * (((at * 0.618034) % 1) - 0.5);
    const dimensions = product.axes.map((axis, number) => ({
      label: axis.key, values: rows.map((row, at) => spread(row.at[number], at)),
      tickvals: axis.values.map((_, at) => at), ticktext: axis.values, range: [-0.3, axis.values.length - 0.7],
    }));
    const scores = rows.map(row => row.score);
    dimensions.push({ label: product.measure === 'TFLOP/s' ? 'TFLOP/s' : 'ratio', values: scores });
    if (!hasWebgl()) return flat(dimensions, scores, rows);
    draw('lines', [{
      type: 'parcoords', dimensions, labelfont: { size: 13 }, tickfont: { size: 11 }, rangefont: { color: 'rgba(0,0,0,0)', size: 1 },
      line: { color: scores, colorscale: scale(), showscale: false },
      unselected: { line: { color: theme.colour('faint'), opacity: 0.06 } },
    }], { margin: { l: 50, r: 50, t: 46, b: 16 } });
  };

  // 1, 2, 5 of every power of ten; in a short range every digit.
  const ticks = ([from, to]) => {
    const digits = to / from > 8 || narrow() ? [1, 2, 5] : [1, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9];
    const values = [];
    for (let power = Math.floor(Math.log10(from)); power <= Math.log10(to); power += 1) {
      values.push(...digits.map(digit => digit * 10 ** power).filter(value => value >= from && value <= to));
    }
    return { tickangle: 0, tickvals: values, ticktext: values.map(value => String(Number(value.toPrecision(3)))) };
  };

  const scatter = product => {
    clear('scatter');
    const { prediction } = product, words = get('model-words');
    words.textContent = '';
    if (!prediction) return nothing('scatter', 'No kernel here has both a prediction and a time.');
    const rank = prediction.rank === null ? 'none to speak of' : prediction.rank.toFixed(3);
    words.textContent = `Rank correlation ${rank} over ${prediction.points} kernels; half of the predictions are within ${prediction.off.toFixed(2)}x of the time.`;
    const rows = product.rows.filter(row => !row.baseline && row.us > 0 && row.predicted > 0);
    const all = rows.flatMap(row => [row.us, row.predicted]);
    const ends = [Math.min(...all) * 0.9, Math.max(...all) * 1.1];
    const of = (verdict, colour, symbol) => {
      const those = rows.filter(row => row.verdict === verdict);
      return {
        type: 'scatter', mode: 'markers', name: verdict, x: those.map(row => row.predicted), y: those.map(row => row.us),
        text: those.map(row => plain(row.name)), marker: { size: 7, color: theme.colour(colour), opacity: 0.75, symbol },
        hovertemplate: '%{text}<br>predicted %{x:.4g} us, measured %{y:.4g} us<extra></extra>',
      };
    };
    draw('scatter', [
      { type: 'scatter', mode: 'lines', name: 'equal', x: ends, y: ends, line: { color: theme.colour('faint'), dash: 'dot', width: 1.5 }, hoverinfo: 'skip' },
      of('timed', 'link', 'circle'), of('slow', 'warn', 'circle-open'),
    ].filter(trace => trace.x.length), {
      xaxis: axis({ type: 'log', title: { text: 'predicted, us' }, range: ends.map(Math.log10), ...ticks(ends) }),
      yaxis: axis({ type: 'log', title: { text: product.kind === 'gpu' ? 'measured, us' : 'by the device, us' }, range: ends.map(Math.log10), ...ticks(ends) }),
    });
  };

  return { overview, heat, lines, scatter };
})();
