// SPDX-License-Identifier: Apache-2.0
#include <causeway/comm/block_rows.hpp>

#include <causeway/axis/low_rank_mean.hpp>
#include <causeway/comm/rounds.hpp>
#include <causeway/optim/adamw.hpp>
#include <causeway/optim/fed_adam.hpp>
#include <causeway/train/trainer.hpp>

#include <algorithm>
#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/pipelines.hpp"

using namespace causeway;

namespace {

using named = std::map<std::string, std::vector<float>>;

/// The values of a row by the names of parameters.
named by_name(std::span<const float> row, std::span<const parameter_segment> segments) {
  named all;
  for (const parameter_segment& s : segments) {
    const auto from = row.begin() + s.offset;
    all[s.name].assign(from, from + s.size());
  }
  return all;
}

}  // namespace

TEMPLATE_TEST_CASE("block rows: what is kept of a block goes where the block goes", "[comm][fast]", optim::nesterov,
                   optim::fed_adam) {
  auto model = nn::gpt::create(support::small_gpt(2), kernels::cpu_backend{1});
  auto t = make_trainer(std::move(*model), environment{}, trainer_options{}, optim::adamw{},
                        comm::rounds{axis::every{1}, axis::outer<TestType>{0.5F}});
  REQUIRE(t.start());
  auto& ctx = t.context();
  const auto before = std::vector<parameter_segment>{ctx.view().segments.begin(), ctx.view().segments.end()};
  const auto rows_now = [&] {
    std::vector<named> rows;
    for (const auto row : t.comm().block_rows()) rows.push_back(by_name(row, ctx.view().segments));
    return rows;
  };
  std::vector<named> was = rows_now();
  CHECK(was.size() == (std::is_same_v<TestType, optim::nesterov> ? 2 : 3));
  for (auto row : t.comm().block_rows()) {
    for (std::size_t i = 0; i < row.size(); ++i) row[i] = static_cast<float>(i % 1000) + 1;
  }
  was = rows_now();

  REQUIRE(ctx.hold(nn::model_part{{1, 2}}, 1));
  REQUIRE(t.comm().divide(ctx, before));
  const auto half = rows_now();
  CHECK(half[0].size() < was[0].size());
  for (std::size_t r = 0; r < half.size(); ++r) {
    for (const auto& [name, values] : half[r]) CHECK(values == was[r].at(name));
  }

  const auto held = std::vector<parameter_segment>{ctx.view().segments.begin(), ctx.view().segments.end()};
  REQUIRE(ctx.hold(nn::model_part{{0, 2}}, 1));
  REQUIRE(t.comm().divide(ctx, held));
  const auto whole = rows_now();
  const auto live = by_name(ctx.parameters(), ctx.view().segments);
  for (std::size_t r = 0; r < whole.size(); ++r) {
    for (const auto& [name, values] : whole[r]) {
      if (half[r].contains(name)) {
        CHECK(values == half[r].at(name));
      } else if (r == 0) {
        CHECK(values == live.at(name));
      } else {
        CHECK(std::all_of(values.begin(), values.end(), [first = values[0]](float v) { return v == first && v < 0.1F; }));
      }
    }
  }
}

TEST_CASE("block rows: of gradients none move, and what the exchange remembers fits the blocks that are here",
          "[comm][fast]") {
  auto model = nn::gpt::create(support::small_gpt(2), kernels::cpu_backend{1});
  auto t = make_trainer(std::move(*model), environment{}, trainer_options{}, optim::adamw{},
                        comm::rounds{axis::every{1}, axis::gradient{}, axis::error_feedback{}, axis::low_rank_mean{2}});
  REQUIRE(t.start());
  auto& ctx = t.context();
  static_assert(decltype(t)::comm_type::traits.moves_with_blocks);
  CHECK(t.comm().block_rows().empty());
  const auto bytes_now = [&] {
    std::vector<std::byte> all;
    for (const auto part : t.comm().memory()) all.insert(all.end(), part.begin(), part.end());
    return all;
  };
  const auto began = bytes_now();
  REQUIRE_FALSE(began.empty());

  const auto before = std::vector<parameter_segment>{ctx.view().segments.begin(), ctx.view().segments.end()};
  REQUIRE(ctx.hold(nn::model_part{{1, 2}}, 1));
  REQUIRE(t.comm().divide(ctx, before));
  CHECK(bytes_now().size() < began.size());
  const auto held = std::vector<parameter_segment>{ctx.view().segments.begin(), ctx.view().segments.end()};
  REQUIRE(ctx.hold(nn::model_part{{0, 2}}, 1));
  REQUIRE(t.comm().divide(ctx, held));
  CHECK(bytes_now().size() == began.size());

  for (const auto part : t.comm().memory()) std::fill(part.begin(), part.end(), std::byte{7});
  REQUIRE(t.comm().forget(ctx));
  CHECK(bytes_now() == began);
}
