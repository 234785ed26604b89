// SPDX-License-Identifier: Apache-2.0
#include <causeway/stage/routing_planned.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "support/catch.hpp"

namespace causeway::stage::routing {
namespace {

/// Peers 10, 11 of stage 0, 20 and 21 of stage 1, ...
roster pairs(std::uint32_t stages) {
  roster known{stages};
  for (std::uint32_t s = 0; s < stages; ++s) {
    known.announced(10 * (s + 1), s);
    known.announced(10 * (s + 1) + 1, s);
  }
  return known;
}

const std::vector<path> three{{10, left_out, 31, 40}, {11, 20, left_out, anybody}, {10, 21, 30, 41}};

}  // namespace

TEST_CASE("routing: micro-batches take the paths of a plan in turn, over all steps", "[stage][fast]") {
  planned<> router{{.paths = three}};
  const roster known = pairs(4);
  for (std::uint64_t step = 0; step < 3; ++step) {
    const step_size size{step, 4, 4};
    router.begin(size, known);
    for (std::uint32_t m = 0; m < 4; ++m) {
      const path& way = three[(m + 4 * step) % 3];
      for (std::uint32_t s = 0; s < 4; ++s) {
        CHECK(router.runs(size, s, m) == (way[s] != left_out));
        if (way[s] < anybody) CHECK(router.choose(known, s, m) == way[s]);
        if (way[s] == anybody) CHECK(router.choose(known, s, m) / 10 == s + 1);
      }
    }
  }
}

TEST_CASE("routing: who has failed or is gone is replaced by another of the stage", "[stage][fast]") {
  planned<> router{{.paths = three}};
  roster known = pairs(4);
  router.begin({0, 3, 4}, known);
  known.ban(31);
  CHECK(router.choose(known, 2, 0) == 30);
  known.gone(10);
  CHECK(router.choose(known, 0, 0) == 11);
  known.announced(10, 0);
  CHECK(router.choose(known, 0, 0) == 10);
  known.gone(20), known.gone(21);
  CHECK(router.choose(known, 1, 1) == nobody);
}

TEST_CASE("routing: a plan may name peers by the last digits of their ids", "[stage][fast]") {
  planned<> router{{.paths = {{0, 1, 2}}, .numbers = 1000}};
  roster known{3};
  for (std::uint32_t s = 0; s < 3; ++s) {
    known.announced(17000 + s, s);
    known.announced(4000 + s + 3, s);
  }
  router.begin({0, 1, 3}, known);
  for (std::uint32_t s = 0; s < 3; ++s) CHECK(router.choose(known, s, 0) == 17000 + s);
}

TEST_CASE("routing: without paths all stages run; the ends always do", "[stage][fast]") {
  const planned<> none;
  for (std::uint32_t s = 0; s < 4; ++s) CHECK(none.runs({0, 8, 4}, s, 3));
  const planned<> wrong{{.paths = {{left_out, 1, left_out}}}};
  CHECK(wrong.runs({0, 8, 3}, 0, 0));
  CHECK(wrong.runs({0, 8, 3}, 2, 0));
}

TEST_CASE("routing: paths are text and come back", "[stage][fast]") {
  CHECK(to_text(three) == "10 - 31 40; 11 20 - *; 10 21 30 41");
  CHECK(parse_paths(to_text(three)).value() == three);
  CHECK(parse_paths("").value().empty());
  CHECK(parse_paths("  0 1;; 2   - ;").value() == std::vector<path>{{0, 1}, {2, left_out}});
  for (const std::string bad : {"0 x 2", "0 -1", "0 1,2", "1 18446744073709551614"}) {
    const auto read = parse_paths(bad);
    REQUIRE_FALSE(read);
    CHECK(read.error().code == errc::bad_text);
  }
}

TEST_CASE("routing: paths that miss a stage are refused", "[stage][fast]") {
  CHECK(check(three, 4));
  CHECK(check({}, 7));
  const auto refuses = [](const std::vector<path>& paths, const std::string& why) {
    const auto checked = check(paths, 3);
    REQUIRE_FALSE(checked);
    CHECK(checked.error().code == errc::invalid_argument);
    CHECK(checked.error().message.find(why) != std::string::npos);
  };
  refuses({{0, 1, 2}, {0, 1}}, "'0 1' does not say");
  refuses({{left_out, 1, 2}}, "first or the last");
  refuses({{0, 1, left_out}}, "first or the last");
  refuses({{0, left_out, 2}, {3, left_out, 5}}, "stage 1");
}

}  // namespace causeway::stage::routing
