// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/elastic/kept_pass.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <numeric>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/timed_stages.hpp"

// Three peers of a pipeline, one after the other in one thread. A pass that lacks an input breaks off, what was on its way
// is lost with the attempt, and the next attempt goes on.
namespace causeway {
namespace {

constexpr std::size_t stages = 3, micro_batches = 5;
constexpr float scale = 0.25F;

using step_type = parallel::step_snapshot<support::timed_stages::tape_type>;
using plan::unit_state;

struct box {
  std::map<std::tuple<plan::work, std::uint32_t, std::uint32_t>, std::vector<float>> messages;  // by who takes it
  std::size_t sent = 0;
};
struct pass_mailbox {
  box& all;
  [[nodiscard]] static bool arrived(const plan::operation&) { return true; }
  result<void> take(const plan::operation& op, std::span<float> values) {
    const auto found = all.messages.find({op.kind, op.micro_batch, op.chunk});
    if (found == all.messages.end()) return fail(errc::peer_lost, "", "it is not there");
    std::copy(found->second.begin(), found->second.end(), values.begin());
    return {};
  }
  result<void> send(const plan::operation& op, std::span<const float> values) {
    const std::uint32_t to = op.kind == plan::work::forward ? op.chunk + 1 : op.chunk - 1;
    all.messages[{op.kind, op.micro_batch, to}].assign(values.begin(), values.end());
    ++all.sent;
    return {};
  }
  static result<void> flush() { return {}; }
};

struct peer {
  explicit peer(std::size_t rank)
      : model{std::make_unique<support::timed_stages>(
            std::int64_t{stages}, 4, nn::model_part{},
            support::block_seconds{1, 0, 0, [this](double s) { forwards += s > 0 ? 1 : 0; }})},
        step{whole(), {0, rank}} {}
  static stage::layout whole() { return {{{{{1, {0, 1}}, {2, {1, 2}}, {3, {2, 3}}}, micro_batches}}}; }

  std::size_t forwards = 0;
  std::unique_ptr<support::timed_stages> model;
  step_type step;
};

std::vector<std::int32_t> tokens() {
  std::vector<std::int32_t> all(micro_batches);
  std::iota(all.begin(), all.end(), 1);
  return all;
}

class pipeline {
 public:
  pipeline() {
    for (std::size_t r = 0; r < stages; ++r) peers_.push_back(std::make_unique<peer>(r));
  }

  /// Every peer that is there once, from the first stage to the last or the other way round. True: nothing is left.
  bool attempt(bool repeats_all) {
    box mailbox;
    const plan::step_progress before = progress();
    const auto plans = plan::resumed_orders(before).value();
    const auto all = tokens();
    const batch whole{all, all, micro_batches};
    const std::vector<std::uint64_t> dropout(micro_batches);
    const std::vector<nn::block_range> ranges{{0, 1}, {1, 2}, {2, 3}};
    ++attempts_;
    for (std::size_t i = 0; i < stages; ++i) {
      const std::size_t r = attempts_ % 2 == 1 ? i : stages - 1 - i;
      if (peers_[r] == nullptr || plans.size() <= r) continue;
      step_type& step = peers_[r]->step;
      std::vector<std::uint32_t> missing;
      for (std::uint32_t m = 0; m < micro_batches && before.owners[step.successor] != r; ++m) {
        if (step.of(step.successor, m).state == unit_state::untouched) missing.push_back(m);
      }
      const auto order = plan::with_repeats(plans[r], step.successor, missing, repeats_all);
      pass_mailbox own{mailbox};
      parallel::kept_pass pass{
          *peers_[r]->model, own, step, {before, static_cast<std::uint32_t>(r), order, ranges, whole, scale, dropout}};
      (void)pass.run();
    }
    sent_ += mailbox.sent;
    const auto now = progress();
    return std::all_of(now.units.begin(), now.units.end(), [](const auto& row) {
      return std::all_of(row.begin(), row.end(), [](unit_state u) { return u == unit_state::done; });
    });
  }

  void lose(std::size_t rank) { peers_[rank].reset(); }
  [[nodiscard]] bool has(std::size_t rank) const { return peers_[rank] != nullptr; }
  [[nodiscard]] peer& of(std::size_t stage) { return *peers_[progress().owners[stage]]; }
  [[nodiscard]] std::size_t sent() const { return sent_; }

 private:
  [[nodiscard]] plan::step_progress progress() {
    plan::step_progress p;
    for (std::size_t s = 0; s < stages; ++s) {
      const std::size_t owner = peers_[s] != nullptr ? s : stage::shadow_of(s, stages);
      p.owners.push_back(static_cast<std::uint32_t>(owner));
      auto& row = p.units.emplace_back();
      for (std::size_t m = 0; m < micro_batches; ++m) row.push_back(peers_[owner]->step.of(s, m).state);
    }
    return p;
  }

  std::vector<std::unique_ptr<peer>> peers_;
  std::size_t sent_ = 0;
  std::size_t attempts_ = 0;
};

// What the whole model comes to, micro-batch after micro-batch.
std::pair<std::vector<float>, double> unsplit() {
  support::timed_stages model{std::int64_t{stages}, 4, nn::model_part{}};
  double loss = 0;
  for (const std::int32_t t : tokens()) {
    const std::vector one{t};
    loss += model.forward_backward(one, one, 1, scale, 0).value();
  }
  std::vector<float> gradients;
  for (std::size_t s = 0; s < stages; ++s) gradients.push_back(*model.parameters().gradient(s));
  return {gradients, loss};
}

void check_result(pipeline& p) {
  const auto [gradients, loss] = unsplit();
  double sum = 0;
  for (std::size_t m = 0; m < micro_batches; ++m) sum += p.of(stages - 1).step.of(stages - 1, m).loss;
  CHECK(sum == loss);
  for (std::size_t s = 0; s < stages; ++s) CHECK(*p.of(s).model->parameters().gradient(s) == gradients[s]);
}

}  // namespace

TEST_CASE("kept pass: a step that breaks off again and again is the step of the whole model, computed once",
          "[parallel][fast]") {
  pipeline p;
  int attempts = 1;
  while (!p.attempt(false) && attempts < 100) ++attempts;
  CHECK(attempts > 3);
  CHECK(attempts < 100);
  check_result(p);
  CHECK(p.sent() > 2 * 2 * micro_batches);  // some had to be sent again
  for (std::size_t r = 0; r < stages; ++r) {
    const auto repeated = p.of(r).forwards - micro_batches;
    CHECK(repeated <= micro_batches);
  }
}

TEST_CASE("kept pass: whoever is lost after whichever attempt, its shadow does what is left, and no forward twice",
          "[parallel][fast]") {
  for (std::size_t lost = 0; lost < stages; ++lost) {
    for (int before = 0; before < 12; ++before) {
      for (const bool all : {false, true}) {
        CAPTURE(lost, before, all);
        pipeline p;
        for (int i = 0; i < before; ++i) (void)p.attempt(all);
        p.lose(lost);
        int attempts = 1;
        while (!p.attempt(all) && attempts < 100) ++attempts;
        REQUIRE(attempts < 100);
        check_result(p);
        const std::size_t shadow = stage::shadow_of(lost, stages);
        for (std::size_t r = 0; r < stages; ++r) {
          if (!p.has(r)) continue;
          CHECK(p.of(r).forwards <= 2 * micro_batches);
          if (r == shadow) CHECK(p.of(r).forwards == 2 * micro_batches);
        }
      }
    }
  }
}

}  // namespace causeway
