// SPDX-License-Identifier: Apache-2.0
// Whole rounds of DiLoCo on a device: what crosses to the host, and that nobody can tell by the bits.
#include <causeway/compress/block_int8.hpp>
#include <causeway/cuda/codec.hpp>
#include <causeway/cuda/nesterov.hpp>
#include <causeway/optim/nesterov.hpp>

#include "cuda/host_engine.hpp"
#include "cuda/mixed_case.hpp"

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

namespace {

using namespace causeway;
using namespace causeway_test::mixed_case;
using causeway_test::engine_on_host;
using int8 = compress::block_int8;

/// Everything of a round on the device.
outcome on_device(std::uint32_t peer, environment env, const std::shared_ptr<cuda::engine>& engine, const plan& p = {}) {
  return train_there(peer, std::move(env), engine, cuda::nesterov{engine}, cuda::codec<int8>{engine}, p);
}
/// The outer step and its state on the host.
outcome off_loaded(std::uint32_t peer, environment env, const std::shared_ptr<cuda::engine>& engine, const plan& p = {}) {
  return train_there(peer, std::move(env), engine, optim::nesterov{}, cuda::codec<int8>{engine}, p);
}
outcome on_cpu(std::uint32_t peer, environment env, const plan& p = {}) {
  return train_here<optim::nesterov, int8>(peer, std::move(env), p);
}

}  // namespace

TEST_CASE("cuda round: codec and outer step on the device, off-loaded or on a CPU give the same bits", "[cuda][fast]") {
  std::array<outcome, 3> got;
  support::run_cluster(3, [&](std::uint32_t peer, environment env) {
    got[peer] = peer == 0   ? on_device(peer, std::move(env), engine_on_host())
                : peer == 1 ? off_loaded(peer, std::move(env), engine_on_host())
                            : on_cpu(peer, std::move(env));
  });
  check_equal(got[0], got[1]);
  check_equal(got[0], got[2]);
  CHECK(got[0].rounds[0] != got[0].rounds[1]);
  CHECK(got[0].losses.back() < got[0].losses.front());
}

TEST_CASE("cuda round: encoded bytes are all that crosses for a round, and no page moves", "[cuda][fast]") {
  const auto report = std::make_shared<causeway_test::queue_report>();
  report->migrates = true;
  std::vector<std::size_t> out, in, touched;  // after each step
  plan watched;
  watched.watch = [&](bool begins) {
    if (out.size() >= local_steps) report->pages.watch(begins);  // the first round reserves memory, and clears it
    if (begins) return;
    out.push_back(report->out), in.push_back(report->in), touched.push_back(report->pages.touched());
  };
  std::array<outcome, 2> got;
  support::run_cluster(2, [&](std::uint32_t peer, environment env) {
    got[peer] = peer == 0 ? on_device(peer, std::move(env), engine_on_host(report), watched) : on_cpu(peer, std::move(env));
  });
  check_equal(got[0], got[1]);
  CHECK(touched.back() == 0);
  if (causeway_test::migrating_pages::works) {  // the host's outer step would have moved them
    const auto other = std::make_shared<causeway_test::queue_report>();
    other->migrates = true;
    plan also{.until = 4};
    also.watch = [&](bool begins) { other->pages.watch(begins); };
    support::run_cluster(
        1, [&](std::uint32_t, environment env) { off_loaded(0, std::move(env), engine_on_host(other), also); });
    CHECK(other->pages.touched() * 4096 > 8 * got[0].rounds[0].size());
  }

  const auto step = [](const std::vector<std::size_t>& v, std::size_t s) { return v[s] - v[s - 1]; };
  const int8 codec;
  const auto length = static_cast<std::int64_t>(got[0].rounds[0].size());
  const auto shard = [&](unsigned p) {
    return codec.encoded_size(
        static_cast<std::size_t>(share_of(length, p, 2, static_cast<std::int64_t>(codec.block())).size()));
  };
  const std::size_t row = shard(0) + shard(1), verdicts = 2 * sizeof(std::uint32_t), hashes = 8 * 1;
  REQUIRE(length < 16'384 * 2);
  for (const std::size_t last : {std::size_t{5}, std::size_t{8}}) {
    CHECK(step(out, last) - step(out, last - 1) == row + verdicts + (length > 16'384 ? 2 : 1) * hashes);
    CHECK(step(in, last) - step(in, last - 1) == row + verdicts);
  }
}

TEST_CASE("cuda round: stopped, saved and loaded it goes on with the same bits, also on the other side", "[cuda][fast]") {
  std::array<outcome, 2> whole, first, rest, swapped;
  std::array<plain_archive, 2> state;
  support::run_cluster(2, [&](std::uint32_t peer, environment env) {
    whole[peer] = peer == 0 ? on_device(peer, std::move(env), engine_on_host()) : on_cpu(peer, std::move(env));
  });
  support::run_cluster(2, [&](std::uint32_t peer, environment env) {
    const plan p{.until = 5, .state = &state[peer]};
    first[peer] = peer == 0 ? on_device(peer, std::move(env), engine_on_host(), p) : on_cpu(peer, std::move(env), p);
  });
  auto kept = state;
  support::run_cluster(2, [&](std::uint32_t peer, environment env) {
    const plan p{.from = 5, .state = &state[peer]};
    rest[peer] = peer == 0 ? on_device(peer, std::move(env), engine_on_host(), p) : on_cpu(peer, std::move(env), p);
  });
  support::run_cluster(2, [&](std::uint32_t peer, environment env) {
    const plan p{.from = 5, .state = &kept[peer]};
    swapped[peer] = peer == 1 ? on_device(peer, std::move(env), engine_on_host(), p) : on_cpu(peer, std::move(env), p);
  });
  REQUIRE(whole[0].rounds.size() == 3);
  check_equal(rest[0], rest[1], 2);
  check_equal(swapped[0], swapped[1], 2);
  CHECK(first[0].rounds[0] == whole[0].rounds[0]);
  for (std::size_t r = 0; r < 2; ++r) {
    CHECK(rest[0].rounds[r] == whole[0].rounds[r + 1]);
    CHECK(rest[0].hashes[r] == whole[0].hashes[r + 1]);
  }
}

TEST_CASE("cuda round: a device that fails anywhere in it ends the step with its error", "[cuda][fast]") {
  const auto run = [](std::int64_t fail_at, std::int64_t* used) {
    const auto report = std::make_shared<causeway_test::queue_report>();
    std::int64_t steps = 0;
    constexpr std::int64_t many = 1 << 20;
    plan p{.until = local_steps + 1};
    p.watch = [&](bool begins) {  // from the last step on
      if (begins && ++steps == local_steps) report->fail_at = used == nullptr ? fail_at : many;
      if (!begins && steps == local_steps && used != nullptr) *used = many - report->fail_at;
    };
    std::array<outcome, 2> got;
    support::run_cluster(2, [&](std::uint32_t peer, environment env) {
      got[peer] = peer == 0 ? on_device(peer, std::move(env), engine_on_host(report), p)
                            : on_cpu(peer, std::move(env), {.until = local_steps + 1});
    });
    return got;
  };
  std::int64_t used = 0;
  CHECK(run(0, &used)[0].rounds.size() == 1);
  REQUIRE(used > 12);
  for (std::int64_t back = 12; back >= 1; --back) {  // the round is the end of the step: its last dozen operations
    CAPTURE(back);
    const auto got = run(used - back, nullptr);
    REQUIRE(got[0].failed);
    CHECK(got[0].failed->code == errc::device_lost);
    CHECK(got[0].rounds.size() == (back == 1 ? 1 : 0));  // the last is the hash: the next pass tells
  }
}
