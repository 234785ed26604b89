// SPDX-License-Identifier: Apache-2.0
// comm::rounds on a device by exchanges of its own: overlap, gossip, merge rules, residuals, regions. The bits of the CPU,
// and no page moves.
#include <causeway/collective/aggregator.hpp>
#include <causeway/comm/rounds.hpp>
#include <causeway/compress/bf16.hpp>
#include <causeway/compress/mask.hpp>
#include <causeway/compress/none.hpp>
#include <causeway/compress/sparse.hpp>
#include <causeway/kernels/row_hash.hpp>

#include "cuda/host_engine.hpp"
#include "cuda/rounds_case.hpp"

#include <array>
#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

using namespace causeway_test::rounds_case;
using causeway_test::engine_on_host, causeway_test::host_threads, causeway_test::row_model;

template <class Side>
auto gathered(const Side& side) {
  return axis::gather_mean<typename Side::codec>{side.make_codec()};
}
template <class Side>
auto split(const Side& side) {
  using codec = typename Side::codec;
  return axis::split_mean<codec>{{}, side.make_codec(), side.make_codec()};
}

constexpr auto streaming = [](const auto& side) {
  return comm::rounds{axis::staggered{4}, axis::strided{2}, gathered(side), axis::delayed{1, 0.5F}, side.make_outer()};
};
constexpr auto eager = [](const auto& side) {
  return comm::rounds{axis::every{3}, axis::eager{}, axis::error_feedback{0.9F}, split(side), side.make_outer()};
};
constexpr auto compensated = [](const auto& side) {
  return comm::rounds{axis::every{4}, axis::consecutive{2}, axis::compensated{2, 0.3F}, split(side), side.make_outer()};
};
constexpr auto kept_back = [](const auto& side) {
  return comm::rounds{axis::every{3}, axis::implicit_residual{}, axis::replayed{1}, gathered(side), side.make_outer()};
};
constexpr auto kept_back_late = [](const auto& side) {
  return comm::rounds{axis::every{3},         axis::balanced{3}, axis::implicit_residual{},
                      axis::one_round_late{}, gathered(side),    side.make_outer()};
};
constexpr auto gossip = [](const auto& side) {
  return comm::rounds{axis::every{2}, axis::random_groups{2}, axis::pseudo_gradient_and_anchor{}, axis::gossip_nesterov{},
                      gathered(side)};
};
constexpr auto grid = [](const auto& side) {
  return comm::rounds{axis::every{2}, axis::grid{2, 2}, axis::parameters{}, axis::balanced{3}, split(side)};
};
constexpr auto with_moments = [](const auto& side) {
  const auto codec = side.wrap(compress::bf16{});  // in 8 bits second moments would become 0
  return comm::rounds{axis::every{3}, axis::parameters_and_moments{}, axis::delayed{1, 0.0F},
                      axis::gather_mean<std::remove_const_t<decltype(codec)>>{codec}};
};
template <class MergeRule>
struct some_coordinates {
  MergeRule merge_rule;
  template <class Side>
  auto operator()(const Side& side) const {
    const auto codec = side.wrap(compress::sparse<compress::no_transform, compress::random_k, compress::none>{});
    return comm::rounds{axis::every{2}, axis::parameters{}, merge_rule,
                        axis::gather_mean<std::remove_const_t<decltype(codec)>, collective::contributor_mean>{codec}};
  }
};
constexpr auto late_gradients = [](const auto& side) {
  return comm::rounds{axis::every{1}, axis::gradient{}, axis::one_round_late{}, axis::momentum_residual{0.9F},
                      gathered(side)};
};
constexpr auto regions = [](const auto& side) {
  using codec = typename std::remove_cvref_t<decltype(side)>::codec;
  using across = axis::split_mean<codec>;
  return comm::rounds{
      axis::every{3},
      axis::two_level_mean<across, codec>{
          {{0, 1}, {2}}, across{{}, side.make_codec(), side.make_codec()}, side.make_codec(), side.make_codec()},
      axis::error_feedback{}, side.make_outer()};
};
constexpr auto some_peers = [](const auto& side) {
  return comm::rounds{axis::every{2}, axis::sampled_peers{0.5}, gathered(side), side.make_outer()};
};

}  // namespace

TEST_CASE("cuda rounds: streaming DiLoCo has the CPU's bits on the device, and no page moves", "[cuda][fast]") {
  check_rounds(streaming, 3);
}

TEST_CASE("cuda rounds: overlapped exchanges have the CPU's bits on the device, and no page moves", "[cuda][fast]") {
  SECTION("eager, with error feedback") { check_rounds(eager, 3, 10); }
  SECTION("what was not sent stays in the parameters") { check_rounds(kept_back, 3); }
  SECTION("the same, a round late") { check_rounds(kept_back_late, 2, 10); }
  SECTION("gradients, a round late") { check_rounds(late_gradients); }
}

TEST_CASE("cuda rounds: compensated fragments have the CPU's bits on the device, whose scale the host sums",
          "[cuda][fast]") {
  check_rounds(compensated, 2, 16);  // so that pages move
}

TEST_CASE("cuda rounds: groups, tensors and regions have the CPU's bits on the device, and no page moves", "[cuda][fast]") {
  SECTION("gossip in pairs") { check_rounds(gossip, 4); }
  SECTION("a grid, fragments of parameters") { check_rounds(grid, 4); }
  SECTION("parameters and moments") { check_rounds(with_moments); }
  SECTION("some coordinates of the parameters") {
    check_rounds(some_coordinates<axis::blocking>{}, 3);
    check_rounds(some_coordinates<axis::delayed>{{1, 0.0F}}, 3);
  }
  SECTION("regions, with error feedback") { check_rounds(regions, 3); }
  SECTION("some peers") { check_rounds(some_peers, 3); }
}

TEST_CASE("cuda rounds: every peer's message is all that crosses for a fragment of streaming DiLoCo", "[cuda][fast]") {
  const auto report = std::make_shared<causeway_test::queue_report>();
  std::vector<std::size_t> out, in;  // after each step
  plan watched{.until = 13};
  watched.watch = [&](bool begins) {
    if (!begins) out.push_back(report->out), in.push_back(report->in);
  };
  constexpr std::size_t peers = 3;
  std::array<outcome, peers> got;
  support::run_cluster(peers, [&](std::uint32_t peer, environment env) {
    got[peer] = peer == 0 ? on_device(0, std::move(env), engine_on_host(report), streaming, watched)
                          : on_cpu(peer, std::move(env), streaming, {.until = 13});
  });
  REQUIRE_FALSE(got[0].failed);
  REQUIRE(got[0].hashes == got[1].hashes);

  row_model<host_threads> model{std::in_place};
  const auto cuts =
      axis::strided{2}.cut(model.parameters().segments(), static_cast<std::size_t>(model.parameters().length()));
  REQUIRE(cuts);
  // Counted from 0, fragments go at steps 9, 10 and 11, and are applied a step later. The norm of a step's gradient comes
  // out.
  std::size_t came_out = 0, went_in = 0;
  for (const axis::fragment& cut : *cuts) {
    const std::size_t message = int8{}.encoded_size(cut.size);
    came_out += message + (peers + 1) * 4 + 8 * kernels::hash_pieces(cut.size);  // a word for each message and the mean
    went_in += peers * (message + 4);
  }
  CHECK(out[12] - out[8] == came_out + 4 * sizeof(double));
  CHECK(in[12] - in[8] == went_in);
  CHECK(out[9] - out[8] == int8{}.encoded_size((*cuts)[0].size) + sizeof(double));
  CHECK(in[9] == in[8]);
}
