// SPDX-License-Identifier: Apache-2.0
#include <causeway/comm/block_rows.hpp>

#include <causeway/axis/low_rank_mean.hpp>
#include <causeway/comm/rounds.hpp>
#include <causeway/optim/adamw.hpp>
#include <causeway/optim/fed_adam.hpp>
#include <causeway/train/trainer.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/pipelines.hpp"

using namespace causeway;

namespace {

using named = std::map<std::string, std::vector<float>>;

/// The values of a row by the names of parameters.
named by_name(const parameter_row& row, std::span<const parameter_segment> segments) {
  named all;
  for (const parameter_segment& s : segments) {
    auto& values = all[s.name];
    row.visit(static_cast<std::size_t>(s.offset), static_cast<std::size_t>(s.size()),
              [&](std::span<const float> piece) { values.insert(values.end(), piece.begin(), piece.end()); });
  }
  return all;
}

/// With an outer optimizer that has this many rows of its own, in these fragments.
template <class Fragments, class Outer, std::size_t Rows>
struct kept_in {
  using fragments = Fragments;
  using outer = Outer;
  static constexpr std::size_t rows = Rows;
};

}  // namespace

TEMPLATE_TEST_CASE("block rows: what is kept of a block goes where the block goes", "[comm][fast]",
                   (kept_in<axis::whole, optim::nesterov, 1>), (kept_in<axis::whole, optim::fed_adam, 2>),
                   (kept_in<axis::strided, optim::nesterov, 1>), (kept_in<axis::consecutive, optim::fed_adam, 2>),
                   (kept_in<axis::balanced, optim::fed_adam, 2>)) {
  auto model = nn::gpt::create(support::small_gpt(4), kernels::cpu_backend{1});
  auto t = make_trainer(std::move(*model), environment{}, trainer_options{}, optim::adamw{},
                        comm::rounds{axis::every{1}, typename TestType::fragments{}, axis::split_mean<>{},
                                     axis::outer<typename TestType::outer>{0.5F}});
  static_assert(decltype(t)::comm_type::traits.moves_with_blocks);
  REQUIRE(t.start());
  auto& ctx = t.context();
  const auto before = std::vector<parameter_segment>{ctx.view().segments.begin(), ctx.view().segments.end()};
  const auto rows_now = [&] {
    std::vector<named> rows;
    for (const parameter_row& row : t.comm().block_rows()) rows.push_back(by_name(row, ctx.view().segments));
    return rows;
  };
  float value = 0;
  for (const parameter_row& row : t.comm().block_rows()) {
    std::size_t length = 0;
    for (const std::span<float> piece : row.pieces) {
      length += piece.size();
      for (float& v : piece) v = 1 + (value = std::fmod(value + 1, 1000.0F));
    }
    CHECK(length == ctx.parameters().size());
  }
  const std::vector<named> was = rows_now();
  REQUIRE(was.size() == 1 + TestType::rows);

  REQUIRE(ctx.hold(nn::model_part{{1, 3}}, 1));
  REQUIRE(t.comm().divide(ctx, before));
  const auto half = rows_now();
  CHECK(half[0].size() < was[0].size());
  for (std::size_t r = 0; r < half.size(); ++r) {
    for (const auto& [name, values] : half[r]) CHECK(values == was[r].at(name));
  }

  const auto held = std::vector<parameter_segment>{ctx.view().segments.begin(), ctx.view().segments.end()};
  REQUIRE(ctx.hold(nn::model_part{{0, 4}}, 1));
  REQUIRE(t.comm().divide(ctx, held));
  const auto whole = rows_now();
  const auto live = by_name({{ctx.parameters()}}, ctx.view().segments);
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
