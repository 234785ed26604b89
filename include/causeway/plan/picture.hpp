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
