// What a mark means, beside the pointer, finger or keyboard focus. Text only: nothing of it is ever read as HTML.
(function () {
  "use strict";
  var tip = document.getElementById("tip"), on = null;

  function show(mark, x, y) {
    if (on !== mark) {
      hide();
      on = mark;
      mark.classList.add("on");
      tip.textContent = mark.getAttribute("data-tip");
      tip.hidden = false;
    }
    var box = tip.getBoundingClientRect();
    tip.style.left = Math.max(4, Math.min(x + 14, window.innerWidth - box.width - 6)) + "px";
    tip.style.top = (y - box.height - 12 > 4 ? y - box.height - 12 : y + 18) + "px";
  }

  function hide() {
    if (on) { on.classList.remove("on"); }
    on = null;
    tip.hidden = true;
  }

  function at(event) {
    var mark = event.target.closest ? event.target.closest("[data-tip]") : null;
    if (mark) { show(mark, event.clientX, event.clientY); } else { hide(); }
  }

  document.addEventListener("pointermove", at);
  document.addEventListener("pointerdown", at);
  document.addEventListener("scroll", hide, { passive: true });
  document.addEventListener("keydown", function (event) { if (event.key === "Escape") { hide(); } });

  // Arrow keys walk the marks of a plot that has the focus.
  document.querySelectorAll("svg.plot").forEach(function (plot) {
    var marks = Array.prototype.slice.call(plot.querySelectorAll("[data-tip]"));
    var place = -1;
    if (!marks.length) { return; }
    plot.setAttribute("tabindex", "0");
    plot.addEventListener("keydown", function (event) {
      var step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (!step) { return; }
      event.preventDefault();
      place = (place + step + marks.length) % marks.length;
      var box = marks[place].getBoundingClientRect();
      show(marks[place], box.left + box.width / 2, box.top);
    });
    plot.addEventListener("blur", hide);
  });
})();
