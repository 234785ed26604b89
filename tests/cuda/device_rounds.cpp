// SPDX-License-Identifier: Apache-2.0
// comm::rounds beside a model on a device: the bits of the CPU, what crosses to the host, and that no page moves.
#include <causeway/axis/fragments.hpp>
#include <causeway/comm/rounds.hpp>
#include <causeway/kernels/row_hash.hpp>

#include "cuda/host_engine.hpp"
#include "cuda/rounds_case.hpp"

#include <array>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace {

using namespace causeway_test::rounds_case;
using causeway_test::engine_on_host, causeway_test::host_threads, causeway_test::row_model;

constexpr auto plain = [](const auto& side) {
  using codec = decltype(side.make_codec());
  return comm::rounds{axis::every{3}, axis::all_reduce<codec>{side.make_codec()}, side.make_outer()};
};
constexpr auto fragments = [](const auto& side) {
  using codec = decltype(side.make_codec());
  return comm::rounds{axis::staggered{4}, axis::strided{2}, axis::all_reduce<codec>{side.make_codec()}, side.make_outer()};
};
constexpr auto fed_back = [](const auto& side) {
  using codec = decltype(side.make_codec());
  return comm::rounds{axis::every{3}, axis::consecutive{2}, axis::all_reduce<codec>{side.make_codec()},
                      axis::error_feedback{0.9F}, side.make_outer()};
};
constexpr auto kept_back = [](const auto& side) {
  using codec = decltype(side.make_codec());
  return comm::rounds{axis::every{3}, axis::balanced{4}, axis::all_reduce<codec>{side.make_codec()},
                      axis::implicit_residual{}, side.make_outer()};
};
constexpr auto averaged = [](const auto& side) {
  using codec = decltype(side.make_codec());
  return comm::rounds{axis::every{3}, axis::parameters{}, axis::all_reduce<codec>{side.make_codec()}};
};
constexpr auto every_gradient = [](const auto& side) {
  using codec = decltype(side.make_codec());
  return comm::rounds{axis::every{1}, axis::gradient{}, axis::momentum_residual{0.9F},
                      axis::all_reduce<codec>{side.make_codec()}};
};

}  // namespace

TEST_CASE("cuda rounds: DiLoCo and its fragments have the CPU's bits on the device, and no page moves", "[cuda][fast]") {
  SECTION("whole") { check_rounds(plain); }
  SECTION("fragments, one after another") { check_rounds(fragments, 3); }
  SECTION("error feedback") { check_rounds(fed_back); }
  SECTION("what was not sent stays in the parameters") { check_rounds(kept_back, 3); }
}

TEST_CASE("cuda rounds: rows that lie on the host bring the device's pages there, with the same bits", "[cuda][fast]") {
  if (!causeway_test::migrating_pages::works) return;
  const auto report = std::make_shared<causeway_test::queue_report>();
  report->migrates = true;
  const auto engine = engine_on_host(report);
  plan watched{.until = 7};
  watched.watch = [&](bool begins) { report->pages.watch(begins); };
  std::array<outcome, 2> got;
  support::run_cluster(1, [&](std::uint32_t, environment env) {
    got[0] = train(0, std::move(env), row_model<cuda::backend>{std::in_place, engine}, cuda::adamw{engine},
                   fragments(here{}), watched);
  });
  support::run_cluster(
      1, [&](std::uint32_t, environment env) { got[1] = on_cpu(0, std::move(env), fragments, {.until = 7}); });
  CHECK(got[0].shared == got[1].shared);
  CHECK(report->pages.touched() * 4096 > 4 * got[0].shared[0].size());
}

TEST_CASE("cuda rounds: means of parameters and gradients have the CPU's bits on the device", "[cuda][fast]") {
  SECTION("parameters") { check_rounds(averaged); }
  SECTION("gradients") { check_rounds(every_gradient); }
}

TEST_CASE("cuda rounds: encoded bytes are all that crosses for a fragment", "[cuda][fast]") {
  const auto report = std::make_shared<causeway_test::queue_report>();
  std::vector<std::size_t> out, in;  // after each step
  plan watched{.until = 12};
  watched.watch = [&](bool begins) {
    if (!begins) out.push_back(report->out), in.push_back(report->in);
  };
  std::array<outcome, 2> got;
  support::run_cluster(2, [&](std::uint32_t peer, environment env) {
    got[peer] = peer == 0 ? on_device(0, std::move(env), engine_on_host(report), fragments, watched)
                          : on_cpu(1, std::move(env), fragments, {.until = 12});
  });
  REQUIRE_FALSE(got[0].failed);
  REQUIRE(got[0].hashes == got[1].hashes);

  row_model<host_threads> model{std::in_place};
  const auto cuts =
      axis::strided{2}.cut(model.parameters().segments(), static_cast<std::size_t>(model.parameters().length()));
  REQUIRE(cuts);
  REQUIRE(cuts->size() == 3);
  const auto step = [](const std::vector<std::size_t>& v, std::size_t s) { return v[s] - v[s - 1]; };
  // Fragments go at steps 2, 3 and 4, 6, 7 and 8, ...; step 5 has none. Steps count from 0 here.
  for (std::size_t f = 0; f < 3; ++f) {
    CAPTURE(f);
    const std::size_t size = (*cuts)[f].size;
    std::size_t row = 0;
    for (unsigned p = 0; p < 2; ++p) {
      const auto part = share_of(static_cast<std::int64_t>(size), p, 2, static_cast<std::int64_t>(int8{}.block()));
      row += int8{}.encoded_size(static_cast<std::size_t>(part.size()));
    }
    const std::size_t verdicts = 2 * sizeof(std::uint32_t);
    CHECK(step(out, 9 + f) - step(out, 8) == row + verdicts + 8 * kernels::hash_pieces(size));
    CHECK(step(in, 9 + f) - step(in, 8) == row + verdicts);
  }
}

TEST_CASE("cuda rounds: a device that fails anywhere in a round ends the step with its error", "[cuda][fast]") {
  const auto run = [](std::int64_t fail_at, std::int64_t* used) {
    const auto report = std::make_shared<causeway_test::queue_report>();
    std::int64_t steps = 0;
    constexpr std::int64_t many = 1 << 20;
    plan p{.until = local_steps + 1};
    p.watch = [&](bool begins) {
      if (begins && ++steps == local_steps) report->fail_at = used == nullptr ? fail_at : many;
      if (!begins && steps == local_steps && used != nullptr) *used = many - report->fail_at;
    };
    std::array<outcome, 2> got;
    support::run_cluster(2, [&](std::uint32_t peer, environment env) {
      got[peer] = peer == 0 ? on_device(0, std::move(env), engine_on_host(report), plain, p)
                            : on_cpu(1, std::move(env), plain, {.until = local_steps + 1});
    });
    return got;
  };
  std::int64_t used = 0;
  CHECK(run(0, &used)[0].rounds.size() == 1);
  REQUIRE(used > 10);
  for (std::int64_t back = 10; back >= 1; --back) {  // the round is the end of the step: its last operations
    CAPTURE(back);
    const auto got = run(used - back, nullptr);
    REQUIRE(got[0].failed);
    CHECK(got[0].failed->code == errc::device_lost);
    CHECK(got[0].rounds.size() == (back == 1 ? 1 : 0));  // the last is the hash: the next pass tells
  }
}
