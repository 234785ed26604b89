// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_PICTURE_HPP
#define CAUSEWAY_PLAN_PICTURE_HPP

// Pictures of a timeline: as text for a terminal or a page, and as SVG. One line per rank, time to the right.

#include <causeway/config/config.hpp>
#include <causeway/plan/schedule.hpp>
#include <causeway/plan/timeline.hpp>

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

namespace detail {

inline constexpr std::size_t most_columns = 200;  // of a text picture whose unit nobody chose

/// The shortest operation of all, but no shorter than what fits `most_columns`.
CAUSEWAY_DECL [[nodiscard]] double natural_unit(const timeline& t);

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

CAUSEWAY_DECL [[nodiscard]] std::string decimal(double value, int digits);

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

CAUSEWAY_DECL void draw_operation(std::string& svg, const timeline& t, std::size_t rank, const timed_operation& o,
                                  double scale);

}  // namespace detail

/// A line per rank: a column for each unit of time (seconds; 0: the shortest operation, or makespan / 200) shows what runs
/// in its middle. A micro-batch's last digit as 0-9 is its forward, A-J its backward or input gradient, a-j its weight
/// gradient; * a recompute; a dot nothing. With several chunks a column has two letters, the second the chunk's last digit.
/// The unit must give less than a million columns.
CAUSEWAY_DECL [[nodiscard]] std::string text_picture(const timeline& t, double unit = 0);

/// What the letters of a text picture mean, in one line.
CAUSEWAY_DECL [[nodiscard]] std::string text_legend(const timeline& t, double unit = 0);

/// The same as a file for browsers: a lane per rank, colours by kind, a tooltip with the times of each operation.
CAUSEWAY_DECL [[nodiscard]] std::string svg_picture(const timeline& t, std::string_view title);

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#ifndef CAUSEWAY_COMPILED
#include <causeway/plan/impl/picture.ipp>
#endif

#endif  // CAUSEWAY_PLAN_PICTURE_HPP
