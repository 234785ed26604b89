// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_IMPL_PICTURE_IPP
#define CAUSEWAY_PLAN_IMPL_PICTURE_IPP

#include <causeway/plan/picture.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <system_error>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan { namespace detail {

/// The last digit of the micro-batch as 0-9, A-J or a-j, by kind; a recompute is *.
[[nodiscard]] constexpr char mark(const operation& op) noexcept {
  const auto digit = static_cast<char>(op.micro_batch % 10);
  switch (op.kind) {
    case work::forward: return static_cast<char>('0' + digit);
    case work::weight_gradient: return static_cast<char>('a' + digit);
    case work::recompute: return '*';
    default: return static_cast<char>('A' + digit);
  }
}

/// Blue forwards, orange gradients, green weight gradients, grey recomputes: told apart by colour-blind people, too. Later
/// chunks are lighter.
[[nodiscard]] constexpr std::string_view colour(work kind) noexcept {
  switch (kind) {
    case work::forward: return "#4477aa";
    case work::weight_gradient: return "#228833";
    case work::recompute: return "#999999";
    default: return "#ee7733";
  }
}

inline constexpr double lane = 28, margin = 70, drawing_width = 1100;  // of an SVG, in its units

inline constexpr std::size_t most_columns = 200;  // of a text picture whose unit nobody chose

/// The shortest operation of all, but no shorter than what fits `most_columns`.
CAUSEWAY_DECL double natural_unit(const timeline& t) {
  double unit = t.makespan;
  for (const auto& rank : t.ranks) {
    for (const timed_operation& o : rank) {
      if (o.end > o.start) unit = std::min(unit, o.end - o.start);
    }
  }
  unit = std::max(unit, t.makespan / static_cast<double>(most_columns));
  return unit > 0 ? unit : 1;
}

CAUSEWAY_DECL std::string decimal(double value, int digits) {
  std::array<char, 400> text;  // DBL_MAX has 309 digits
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed, digits);
  return end.ec == std::errc{} ? std::string{text.data(), end.ptr} : std::string{"?"};
}

CAUSEWAY_DECL void draw_operation(std::string& svg, const timeline& t, std::size_t rank, const timed_operation& o,
                                  double scale) {
  const double x = margin + o.start * scale, width = (o.end - o.start) * scale;
  const double y = lane * (static_cast<double>(rank) + 1);
  const double opacity = 1 - 0.55 * o.op.chunk / std::max(1.0, t.chunks - 1.0);
  svg += "<rect x=\"" + decimal(x, 2) + "\" y=\"" + decimal(y, 2) + "\" width=\"" + decimal(width, 2) + "\" height=\"" +
         decimal(lane - 4, 2) + "\" fill=\"" + std::string{colour(o.op.kind)} + "\" fill-opacity=\"" +
         decimal(t.chunks > 1 ? opacity : 1, 2) + "\" stroke=\"white\"><title>" + to_string(o.op) + ": " +
         decimal(o.start, 3) + " to " + decimal(o.end, 3) + " s</title></rect>\n";
  const std::string label = std::to_string(o.op.micro_batch);
  if (width < 7 * static_cast<double>(label.size()) + 2) return;
  svg += "<text x=\"" + decimal(x + width / 2, 2) + "\" y=\"" + decimal(y + lane / 2 + 2, 2) +
         "\" text-anchor=\"middle\">" + label + "</text>\n";
}

}}}}  // namespace causeway::CAUSEWAY_ABI::plan::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL std::string text_picture(const timeline& t, double unit) {
  CAUSEWAY_EXPECT(unit >= 0);
  if (unit == 0) unit = detail::natural_unit(t);
  CAUSEWAY_EXPECT(t.makespan / unit < 1e6);
  const auto column = [&](double seconds) {  // the first whose middle is not before this moment
    return static_cast<std::size_t>(std::max(0.0, std::ceil(seconds / unit - 0.5 - 1e-9)));
  };
  const std::size_t letters = t.chunks > 1 ? 2 : 1;
  const std::size_t digits = std::to_string(t.ranks.size() - 1).size();
  std::string text;
  for (std::size_t r = 0; r < t.ranks.size(); ++r) {
    std::string line(column(t.makespan) * letters, '.');
    for (const timed_operation& o : t.ranks[r]) {
      for (std::size_t c = column(o.start); c < column(o.end); ++c) {
        line[c * letters] = detail::mark(o.op);
        if (letters == 2) line[c * letters + 1] = static_cast<char>('0' + o.op.chunk % 10);
      }
    }
    const std::string number = std::to_string(r);
    text += "rank " + std::string(digits - number.size(), ' ') + number + "  " + line + '\n';
  }
  return text;
}

CAUSEWAY_DECL std::string text_legend(const timeline& t, double unit) {
  std::string legend = "0-9 forward, A-J backward or input gradient, a-j weight gradient, * recompute";
  if (t.chunks > 1) legend += "; then the chunk";
  return legend + "; a column is " + detail::decimal(unit > 0 ? unit : detail::natural_unit(t), 3) + " s\n";
}

CAUSEWAY_DECL std::string svg_picture(const timeline& t, std::string_view title) {
  const double scale = t.makespan > 0 ? detail::drawing_width / t.makespan : 0;
  const double height = detail::lane * (static_cast<double>(t.ranks.size()) + 2);
  std::string svg = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " +
                    detail::decimal(detail::drawing_width + detail::margin + 10, 0) + ' ' + detail::decimal(height, 0) +
                    "\" font-family=\"sans-serif\" font-size=\"12\">\n<text x=\"10\" y=\"18\">";
  for (const char c : title) {
    switch (c) {
      case '<': svg += "&lt;"; break;
      case '&': svg += "&amp;"; break;
      default: svg += c; break;
    }
  }
  svg += ": " + detail::decimal(t.makespan, 3) + " s, efficiency " + detail::decimal(t.efficiency(), 3) + "</text>\n";
  for (std::size_t r = 0; r < t.ranks.size(); ++r) {
    const double y = detail::lane * (static_cast<double>(r) + 1.5) + 2;
    svg += "<text x=\"10\" y=\"" + detail::decimal(y, 2) + "\">rank " + std::to_string(r) + "</text>\n";
    for (const timed_operation& o : t.ranks[r]) detail::draw_operation(svg, t, r, o, scale);
  }
  return svg + "</svg>\n";
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_PICTURE_IPP
