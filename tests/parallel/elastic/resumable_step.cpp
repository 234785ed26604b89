// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/elastic/resumable_step.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <numeric>
#include <span>
#include <vector>

#include "support/catch.hpp"
#include "support/cluster.hpp"
#include "support/timed_stages.hpp"

// A pipeline of three peers that have made a whole step when one of them is lost, before it is voted on; without a
// membership.
namespace causeway {
namespace {

constexpr std::uint32_t stages = 3, micro_batches = 4;
constexpr float scale = 0.5F;

struct peer_context {
  support::timed_stages& model() { return model_; }
  std::span<float> gradients() { return model_.parameters().gradients(); }
  thread_pool& pool() { return model_.backend().pool(); }

  support::timed_stages model_;
};

struct peer {
  std::size_t forwards = 0;
  peer_context ctx{
      support::timed_stages{stages, 4, nn::model_part{}, {1, 0, 0, [this](double s) { forwards += s > 0 ? 1 : 0; }}}};
  parallel::resumable_step work;
  double loss = 0;

  [[nodiscard]] std::vector<float> sums() {
    std::vector<float> all;
    for (std::size_t s = 0; s < stages; ++s) all.push_back(*ctx.model().parameters().gradient(s));
    return all;
  }
};

const std::uint64_t ids[] = {11, 12, 13};
const parallel::step_record record{5, 77, 1, {}};

stage::layout without(std::size_t lost) {
  stage::layout l{{{{{ids[0], {0, 1}}, {ids[1], {1, 2}}, {ids[2], {2, 3}}}, micro_batches}}};
  if (lost < stages) l.replicas[0].assignments[lost].peer = stage::nobody;
  return l;
}

// One attempt of the peers that are there.
void attempt(std::vector<std::unique_ptr<peer>>& all, std::size_t lost, bool resumes) {
  const stage::layout l = without(lost);
  std::map<std::uint64_t, net::peer_index> index_of;
  std::vector<std::size_t> there;
  for (std::size_t r = 0; r < stages; ++r) {
    if (r == lost) continue;
    index_of[ids[r]] = static_cast<net::peer_index>(there.size());
    there.push_back(r);
  }
  support::run_cluster(static_cast<std::uint32_t>(there.size()), [&](std::uint32_t p, environment env) {
    peer& me = *all[there[p]];
    const stage::layout::place at{0, there[p]};
    const parallel::step_exchange exchange{env.transport, index_of, {.channel = 96}, {}, {.channel = 112}};
    if (resumes) {
      if (!me.work.resume(exchange, true, micro_batches)) std::abort();  // checks of Catch are for one thread
    } else {
      me.work.begin<support::timed_stages::tape_type>(record.state, l, &at);
    }
    std::vector<std::int32_t> tokens(micro_batches);
    std::iota(tokens.begin(), tokens.end(), 1);
    const batch whole{tokens, tokens, micro_batches};
    const std::vector<std::uint64_t> dropout(micro_batches);
    stage::plain codec;
    me.forwards = 0;
    me.loss = me.work.run(me.ctx, l, codec, {whole, micro_batches, {}, scale, true, dropout}, exchange, true).value();
  });
}

std::vector<float> unsplit(double& loss) {
  support::timed_stages model{stages, 4, nn::model_part{}};
  loss = 0;
  for (std::int32_t t = 1; t <= static_cast<std::int32_t>(micro_batches); ++t) {
    const std::vector one{t};
    loss += model.forward_backward(one, one, 1, scale, 0).value();
  }
  std::vector<float> all;
  for (std::size_t s = 0; s < stages; ++s) all.push_back(*model.parameters().gradient(s));
  return all;
}

std::vector<std::unique_ptr<peer>> three_peers() {
  std::vector<std::unique_ptr<peer>> all;
  for (std::size_t r = 0; r < stages; ++r) all.push_back(std::make_unique<peer>());
  return all;
}

}  // namespace

TEST_CASE("resumable step: whoever is lost, its shadow makes its gradients from what all have kept", "[parallel][fast]") {
  double loss = 0;
  const auto want = unsplit(loss);
  for (std::size_t lost = 0; lost < stages; ++lost) {
    CAPTURE(lost);
    auto peers = three_peers();
    attempt(peers, stages, false);
    for (std::size_t r = 0; r < stages; ++r) {
      std::vector<float> own(stages);  // a repeated forward leaves nothing in the sums
      own[r] = want[r];
      CHECK(peers[r]->sums() == own);
      CHECK(peers[r]->forwards == 2 * micro_batches);
      CHECK(peers[r]->loss == (r + 1 == stages ? loss : 0));
      CHECK(peers[r]->work.agreed() == 0);
      // Gradients were summed with others' and scaled: that is not what an attempt goes on from.
      for (float& g : peers[r]->ctx.gradients()) g *= 3;
    }
    attempt(peers, lost, true);
    const std::size_t shadow = stage::shadow_of(lost, stages);
    double sum = 0;
    for (std::size_t r = 0; r < stages; ++r) {
      if (r == lost) continue;
      std::vector<float> own(stages);
      own[r] = want[r];
      if (r == shadow) own[lost] = want[lost];
      CHECK(peers[r]->sums() == own);
      CHECK(peers[r]->forwards == 0);
      CHECK(peers[r]->work.agreed() == peers[shadow]->work.agreed());
      CHECK(peers[r]->work.agreed() != 0);
      sum += peers[r]->loss;
    }
    CHECK(sum == loss);
    attempt(peers, stages, true);  // it is there after all, and has its own
    for (std::size_t r = 0; r < stages; ++r) {
      std::vector<float> own(stages);
      own[r] = want[r];
      CHECK(peers[r]->sums() == own);
      CHECK(peers[r]->forwards == (r == shadow ? micro_batches : 0));  // for the next time
    }
  }
}

TEST_CASE("resumable step: it is of one state and layout", "[parallel][fast]") {
  auto peers = three_peers();
  CHECK(peers[0]->work.described(record, {}).name == 0);
  attempt(peers, stages, false);
  const auto begun = peers[1]->work.described(record, {{1, 3}});
  CHECK(begun.name == peers[0]->work.described(record, {}).name);
  CHECK(begun.name != 0);
  CHECK(begun.replicas == 1);
  CHECK(begun.stages == stages);
  CHECK(begun.stage == 1);
  CHECK((begun.keeps == std::vector<nn::block_range>{{1, 3}}));
  auto later = record;
  later.state = 78;
  CHECK(peers[1]->work.described(later, {}).name == 0);
  peers[1]->work.forget();
  CHECK(peers[1]->work.described(record, {}).name == 0);
}

}  // namespace causeway
