// SPDX-License-Identifier: Apache-2.0
// Whole runs with sparse messages, one peer on a device: the bits of the CPU, what crosses to the host, and that no page
// moves.
#include <causeway/axis/content.hpp>
#include <causeway/axis/every.hpp>
#include <causeway/axis/exchange.hpp>
#include <causeway/axis/fragments.hpp>
#include <causeway/axis/outer.hpp>
#include <causeway/axis/residual.hpp>
#include <causeway/collective/aggregator.hpp>
#include <causeway/comm/rounds.hpp>
#include <causeway/cuda/codec.hpp>
#include <causeway/cuda/nesterov.hpp>
#include <causeway/kernels/row_hash.hpp>
#include <causeway/optim/sgd.hpp>

#include "cuda/host_engine.hpp"
#include "cuda/mixed_case.hpp"
#include "cuda/row_model.hpp"
#include "cuda/sparse_case.hpp"

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace {

using namespace causeway;
using namespace causeway_test::mixed_case;
using causeway_test::engine_on_host, causeway_test::host_threads, causeway_test::queue_report, causeway_test::row_model;

/// SparseLoCo (presets/compressed.hpp) and DeMo, by a codec and an outer optimizer of either side.
constexpr auto sparse_loco = [](const auto& codec, auto&& outer) {
  using exchange = axis::gather_mean<std::remove_cvref_t<decltype(codec)>>;
  return comm::rounds{axis::every{3}, axis::error_feedback{0.95F, 1.0F}, exchange{codec},
                      axis::outer{1.0F, std::move(outer)}};
};
constexpr auto demo = [](const auto& codec, auto&&) {
  using exchange = axis::gather_mean<std::remove_cvref_t<decltype(codec)>, collective::sign_of<>>;
  return comm::rounds{axis::every{1}, axis::gradient{}, axis::momentum_residual{0.9F}, exchange{codec}};
};

constexpr std::uint32_t peers = 3;
constexpr std::uint64_t steps = 12, warm = 7;  // from step `warm` on, rows have their memory

struct run {
  std::vector<outcome> got = std::vector<outcome>(peers);
  std::vector<plain_archive> state = std::vector<plain_archive>(peers);
};

template <class Codec, class Compose>
outcome on_cpu(std::uint32_t peer, environment env, const Codec& how, Compose compose, const plan& p) {
  return train(peer, std::move(env), row_model<host_threads>{std::in_place}, optim::adamw{}, compose(how, optim::sgd{}), p);
}

/// Peer 0 on an engine, if there is a report for it.
template <class Codec, class Compose>
run train_all(const Codec& how, Compose compose, const std::shared_ptr<queue_report>& report, plan watched = {}) {
  run r;
  watched.until = steps;
  watched.state = &r.state[0];
  support::run_cluster(peers, [&](std::uint32_t peer, environment env) {
    if (peer == 0 && report != nullptr) {
      const auto engine = engine_on_host(report);
      r.got[0] = train(0, std::move(env), row_model<cuda::backend>{std::in_place, engine}, cuda::adamw{engine},
                       compose(cuda::codec{engine, how}, cuda::sgd{engine}), watched);
    } else {
      r.got[peer] = on_cpu(peer, std::move(env), how, compose, {.until = steps, .state = &r.state[peer]});
    }
  });
  return r;
}

/// `every`: steps between rounds.
template <class Codec, class Compose>
void check_rounds(const Codec& how, Compose compose, std::uint64_t every) {
  const run expected = train_all(how, compose, nullptr);
  const auto report = std::make_shared<queue_report>();
  report->migrates = true;
  std::vector<std::size_t> out, in;  // after each step
  plan watched;
  watched.watch = [&](bool begins) {
    if (out.size() >= warm) report->pages.watch(begins);
    if (!begins) out.push_back(report->out), in.push_back(report->in);
  };
  const run mixed = train_all(how, compose, report, watched);
  for (std::uint32_t peer = 0; peer < peers; ++peer) {
    CAPTURE(peer);
    REQUIRE_FALSE(mixed.got[peer].failed);
    REQUIRE(mixed.got[peer].rounds.size() == steps / every);
    CHECK(mixed.got[peer].rounds.front() != mixed.got[peer].rounds.back());
    CHECK(mixed.got[peer].rounds == expected.got[peer].rounds);
    CHECK(mixed.got[peer].hashes == expected.got[peer].hashes);
    CHECK(mixed.state[peer].bytes == expected.state[peer].bytes);
  }
  CHECK(report->pages.touched() == 0);

  // The last round: its messages, a word for each and one for the mean, the hash; and the gradient's norm in every step.
  thread_pool pool{1};
  row_model<host_threads> model{std::in_place};
  const auto size = static_cast<std::size_t>(model.parameters().length());
  const auto cuts = axis::whole{}.cut(model.parameters().segments(), size);
  REQUIRE(cuts);
  REQUIRE(cuts->size() == 1);
  const std::size_t message = how.most_bytes({.pool = pool, .matrices = cuts->front().matrices}, size);
  const auto moved = [&](const std::vector<std::size_t>& v) { return v[steps - 1] - v[steps - 1 - every]; };
  CHECK(moved(out) == message + (peers + 1) * 4 + 8 * kernels::hash_pieces(size) + 8 * every);
  CHECK(moved(in) == peers * (message + 4));
}

}  // namespace

TEST_CASE("cuda sparse round: SparseLoCo on a device has the CPU's bits, and only messages cross", "[cuda][fast]") {
  using codec = compress::sparse<compress::no_transform, compress::top_k, compress::bits<2>>;
  check_rounds(codec{{}, compress::top_k{{.k = 512}}, compress::bits<2>{{.bucket = 4096}}}, sparse_loco, 3);
}

TEST_CASE("cuda sparse round: DeMo on a device has the CPU's bits, and only messages cross", "[cuda][fast]") {
  using codec = compress::sparse<compress::dct_tiles, compress::top_k, compress::none>;
  check_rounds(codec{compress::dct_tiles{}, compress::top_k{{.k = 512}}}, demo, 1);
}
