// SPDX-License-Identifier: Apache-2.0
#include <causeway/plan/picture.hpp>

#include <causeway/plan/schedule_varuna.hpp>
#include <causeway/plan/schedules.hpp>

#include <algorithm>
#include <cstddef>
#include <string>

#include "support/catch.hpp"

using namespace causeway;
using plan::schedule;
using plan::stage_costs;
using plan::timeline;

namespace {

timeline laid_out(const schedule& s, const stage_costs& costs) { return *plan::timeline_of(s, costs); }

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

}  // namespace

TEST_CASE("A text picture has a line per rank and a column per unit of time", "[plan][fast]") {
  CHECK(plan::text_picture(laid_out(*plan::one_f_one_b(3, 4), plan::equal_costs(3))) ==
        "rank 0  012....AA3BB.CC.DD\n"
        "rank 1  .01..AA2BB3CC.DD..\n"
        "rank 2  ..0AA1BB2CC3DD....\n");
  CHECK(plan::text_picture(laid_out(*plan::zero_bubble(3, 4), plan::equal_costs(3))) ==
        "rank 0  012..Aa3BbCcDd\n"
        "rank 1  .01.A2Ba3CbDcd\n"
        "rank 2  ..0A1B2Ca3Dbcd\n");
  CHECK(plan::text_picture(laid_out(*plan::varuna(plan::equal_costs(2), 3, 2), plan::equal_costs(2))) ==
        "rank 0  01*2AA*BB*CC\n"
        "rank 1  .0AA1BB2CC..\n");
}

TEST_CASE("A text picture shows chunks as a second letter, and ranks in a column", "[plan][fast]") {
  const timeline t = laid_out(*plan::interleaved(2, 2, 2), plan::equal_costs(4));
  CHECK(plan::text_picture(t) ==
        "rank 0  00100111....A1A1..B1B1A0A0B0B0\n"
        "rank 1  ..001001A1A111B1B1A0A0B0B0....\n");
  const std::string eleven = plan::text_picture(laid_out(*plan::gpipe(11, 1), plan::equal_costs(11)));
  CHECK(eleven.starts_with("rank  0  0."));
  CHECK(count(eleven, "\nrank 10  .") == 1);
}

TEST_CASE("A column shows what runs in its middle", "[plan][fast]") {
  // F takes 1.4 s and I and W together 2.6 s: columns of a second
  const timeline t = laid_out(*plan::gpipe(1, 2), plan::equal_costs(1, {1.4, 1.6, 1, 1}));
  CHECK(plan::text_picture(t, 1) == "rank 0  011AABBB\n");
  CHECK(plan::text_picture(t, 2) == "rank 0  0AAB\n");
  CHECK(count(plan::text_legend(t, 2), "a column is 2.000 s") == 1);
  CHECK(count(plan::text_legend(t), "a column is 1.400 s") == 1);
}

TEST_CASE("A unit that nobody chose gives a picture that fits", "[plan][fast]") {
  const timeline t = laid_out(*plan::one_f_one_b(2, 300), plan::equal_costs(2, {0.001, 1, 1, 1}));
  const std::string text = plan::text_picture(t);
  CHECK(text.find('\n') == 8 + 200);
}

TEST_CASE("Timelines of nothing have pictures, too", "[plan][fast]") {
  const timeline t = laid_out(*plan::gpipe(2, 2), plan::equal_costs(2, {0, 0, 0, 0}));
  CHECK(plan::text_picture(t) == "rank 0  \nrank 1  \n");
  CHECK(plan::svg_picture(t, "nothing").ends_with("</svg>\n"));
}

TEST_CASE("An SVG has a rectangle for each operation, inside its frame, and an escaped title", "[plan][fast]") {
  const timeline t = laid_out(*plan::interleaved(4, 2, 8), plan::equal_costs(8, {}, {0.25, 0, 0, 1}));
  const std::string svg = plan::svg_picture(t, "a < b & c");
  CHECK(count(svg, "<rect ") == 4 * 2 * 2 * 8);
  CHECK(count(svg, "<text x=\"10\"") == 1 + 4);
  CHECK(count(svg, "a &lt; b &amp; c: ") == 1);
  CHECK(count(svg, "<svg ") == 1);
  CHECK(svg.ends_with("</svg>\n"));
  CHECK(std::all_of(svg.begin(), svg.end(), [](char c) { return c == '\n' || (c >= ' ' && c <= '~'); }));
  // the last operation ends where the drawing does: 70 + 1100
  const std::size_t at = svg.rfind("<rect x=\"");
  const double x = std::stod(svg.substr(at + 9));
  const std::size_t wide = svg.find("width=\"", at);
  CHECK(x > 70);
  CHECK(x + std::stod(svg.substr(wide + 7)) <= 1170.02);
}
