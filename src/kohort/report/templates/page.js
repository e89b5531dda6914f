'use strict';
// The figures under the pointer, and the words of the overview. All data is what the page shows.
(() => {
  const SVG = 'http://www.w3.org/2000/svg';
  const share = text => parseFloat(text) / 100;
  const number = value => value.toLocaleString('en', {maximumSignificantDigits: 4});
  const span = ms => {
    if (ms < 1000) return `${Math.round(ms)} ms`;
    const s = ms / 1000;
    if (s < 120) return `${number(s)} s`;
    return s < 7200 ? `${number(s / 60)} min` : `${number(s / 3600)} h`;
  };
  const units = {'records/s': v => `${number(v)} records/s`, records: v => `${number(v)} records`, ms: span};
  const clock = ms => new Date(ms).toISOString().replace('T', ' ').replace(/\.\d+Z$/, ' UTC');

  // A path of straight lines as points; the last one at or before x has the value.
  const points = path => {
    if (!path.points) {
      path.points = path.getAttribute('d').split(/[MLZ]+/).filter(Boolean)
        .map(text => text.split(' ').map(Number));
    }
    return path.points;
  };
  const valueAt = (path, at, height, top) => {
    let found = null;
    for (const [x, y] of points(path)) {
      if (x > at * 1000) break;
      found = y;
    }
    return found === null ? null : (1 - found / height) * top;
  };
  const values = (canvas, at) => {
    const lines = canvas.querySelector('.lines');
    const height = Number(lines.getAttribute('height'));
    const write = units[canvas.dataset.unit];
    return [...lines.querySelectorAll('path')]
      .map(path => valueAt(path, at, height, Number(canvas.dataset.top)))
      .filter(value => value !== null).map(write).join(', largest partition ');
  };
  const owners = (canvas, at) => {
    const lane = canvas.querySelectorAll('.lane rect')[canvas.lane || 0];
    if (!lane) return '';
    const y = lane.getAttribute('y');
    let owner = 'no owner';
    for (const rect of canvas.querySelectorAll('.bands rect, .often rect')) {
      const x = share(rect.getAttribute('x'));
      if (rect.getAttribute('y') === y && x <= at && at <= x + share(rect.getAttribute('width'))) {
        owner = rect.parentNode.querySelector('title').textContent;
      }
    }
    return `${lane.textContent.trim()}: ${owner}`;
  };
  const nearest = (canvas, at) => {
    let best = null, distance = 0.03;
    for (const stem of canvas.querySelectorAll('.stem')) {
      const apart = Math.abs(share(stem.getAttribute('x1')) - at);
      if (apart < distance) [best, distance] = [stem, apart];
    }
    return best ? best.parentNode.querySelector('title').textContent : '';
  };
  const texts = {owners, values, rebalances: nearest};

  const show = (canvas, at) => {
    canvas.at = Math.min(Math.max(at, 0), 1);
    let line = canvas.querySelector('.cursor');
    if (!line) {
      line = document.createElementNS(SVG, 'line');
      line.setAttribute('class', 'cursor');
      line.setAttribute('y2', canvas.getAttribute('height') - 20);
      canvas.append(line);
    }
    line.setAttribute('x1', `${canvas.at * 100}%`);
    line.setAttribute('x2', `${canvas.at * 100}%`);
    const {since, until, kind} = canvas.dataset;
    const time = Number(since) + canvas.at * (until - since);
    const output = canvas.closest('figure').querySelector('.readout');
    output.textContent = [clock(time), texts[kind](canvas, canvas.at)].filter(Boolean).join(' · ');
  };
  const hide = canvas => {
    canvas.querySelector('.cursor')?.remove();
    canvas.closest('figure').querySelector('.readout').textContent = '';
  };
  const laneAt = (canvas, y) => {
    const tops = [...canvas.querySelectorAll('.lane rect')].map(rect => Number(rect.getAttribute('y')));
    return Math.max(tops.findLastIndex(top => top <= y), 0);
  };

  for (const canvas of document.querySelectorAll('.canvas')) {
    canvas.tabIndex = 0;
    canvas.addEventListener('pointermove', event => {
      const box = canvas.getBoundingClientRect();
      if (canvas.dataset.kind === 'owners') canvas.lane = laneAt(canvas, event.clientY - box.top);
      show(canvas, (event.clientX - box.left) / box.width);
    });
    canvas.addEventListener('pointerleave', () => hide(canvas));
    canvas.addEventListener('blur', () => hide(canvas));
    canvas.addEventListener('focus', () => show(canvas, canvas.at ?? 1));
    canvas.addEventListener('keydown', event => {
      const step = {ArrowLeft: -0.005, ArrowRight: 0.005, PageUp: -0.1, PageDown: 0.1, Home: -1, End: 1}[event.key];
      const lanes = {ArrowUp: -1, ArrowDown: 1}[event.key];
      if (lanes && canvas.dataset.kind === 'owners') {
        const last = canvas.querySelectorAll('.lane rect').length - 1;
        canvas.lane = Math.min(Math.max((canvas.lane || 0) + lanes, 0), last);
      } else if (!step) {
        return;
      }
      event.preventDefault();
      show(canvas, (canvas.at ?? 1) + (step || 0));
    });
  }

  const words = document.getElementById('words');
  if (words) {
    words.closest('.filter').hidden = false;
    const rows = [...document.querySelectorAll('.overview tbody tr')];
    words.addEventListener('input', () => {
      const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      for (const row of rows) {
        const text = row.textContent.toLowerCase();
        row.hidden = !wanted.every(word => text.includes(word));
        shown += !row.hidden;
      }
      document.getElementById('matches').textContent = wanted.length ? `${shown} of ${rows.length}` : '';
    });
  }
})();
