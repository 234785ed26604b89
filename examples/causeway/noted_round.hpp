// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_NOTED_ROUND_HPP
#define CAUSEWAY_EXAMPLES_NOTED_ROUND_HPP

// A peer of a swarm whose doings are noted down: who put how many micro-batches into its stage's sum, and how long one
// takes.

#include <causeway/parallel/swarm/swarm_options.hpp>
#include <causeway/parallel/swarm/swarm_shares.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace app {

class noted_round final : public causeway::parallel::swarm_round {
 public:
  /// `measured` is called after every step with the seconds that a micro-batch takes here.
  noted_round(std::shared_ptr<swarm_round> over, std::function<void(double)> measured)
      : over_{std::move(over)}, measured_{std::move(measured)} {}

  /// Of the exchange that made this step, if this peer took part: the micro-batches of each peer of the stage. Who had the
  /// whole sum from an earlier attempt has them all.
  [[nodiscard]] std::vector<std::uint32_t> shares(std::uint64_t step) const {
    return step == step_ + 1 ? shares_ : std::vector<std::uint32_t>{};
  }
  /// Peers in the last exchange.
  [[nodiscard]] std::uint32_t peers() const noexcept { return static_cast<std::uint32_t>(shares_.size()); }

  [[nodiscard]] const causeway::parallel::swarm_options& options() const noexcept override { return over_->options(); }
  void open(std::uint64_t agreement) override { over_->open(agreement); }
  void tie(causeway::parallel::swarm_tied_table table) override { over_->tie(std::move(table)); }
  causeway::result<void> exchange_means(bool late, causeway::parallel::gradient_place at) override {
    return over_->exchange_means(late, std::move(at));
  }
  void committed(bool adopted) override { over_->committed(adopted); }
  bool put_table() override { return over_->put_table(); }
  causeway::result<double> evaluate(std::uint64_t step, std::uint32_t pieces, causeway::parallel::swarm_computer& computer,
                                    std::optional<std::uint32_t> path) override {
    return over_->evaluate(step, pieces, computer, path);
  }
  causeway::result<double> run(std::uint64_t step, causeway::parallel::swarm_computer& computer) override {
    auto loss = over_->run(step, computer);
    measured_(over_->seconds_per_micro_batch());
    return loss;
  }
  causeway::result<void> complete(const std::function<bool()>& summoned) override { return over_->complete(summoned); }
  [[nodiscard]] bool called_away() const noexcept override { return over_->called_away(); }
  [[nodiscard]] bool is_waited_for() override { return over_->is_waited_for(); }
  [[nodiscard]] causeway::parallel::swarm_holding holding() override { return over_->holding(); }
  causeway::result<causeway::parallel::swarm_part_taken> take_part(std::span<const causeway::parallel::swarm_holding> all,
                                                                   std::size_t self) override {
    auto part = over_->take_part(all, self);
    if (part) note(all, all[self]);
    return part;
  }
  causeway::result<causeway::parallel::swarm_sum> keep_sum(std::span<const float> sum,
                                                           std::span<const float> gradient) override {
    return over_->keep_sum(sum, gradient);
  }
  [[nodiscard]] causeway::time_point now() override { return over_->now(); }
  void throw_away() override { over_->throw_away(); }
  void restore_sum(const causeway::parallel::swarm_sum& kept) override { over_->restore_sum(kept); }
  causeway::result<std::vector<double>> all_summed() override { return over_->all_summed(); }
  void agreed(std::span<const double> all) override { over_->agreed(all); }
  causeway::result<void> sum(std::span<double> values, const causeway::collective::collective_options& options) override {
    return over_->sum(values, options);
  }
  std::span<std::byte> decision(std::size_t most) override { return over_->decision(most); }
  [[nodiscard]] float norm() const override { return over_->norm(); }
  [[nodiscard]] std::uint64_t contributed() override { return over_->contributed(); }
  void end_local_step(std::uint64_t step, causeway::parallel::swarm_computer& round) override {
    over_->end_local_step(step, round);
  }
  [[nodiscard]] bool run_ends() override { return over_->run_ends(); }
  void meets_in_groups() override { over_->meets_in_groups(); }
  void meanwhile(std::function<void()> what) override { over_->meanwhile(std::move(what)); }
  void has_values(bool it_has) override { over_->has_values(it_has); }
  causeway::result<void> shares_paths(std::uint32_t count, std::function<void(std::uint32_t)> taken,
                                      std::function<void(std::uint32_t, std::span<float>)> put) override {
    return over_->shares_paths(count, std::move(taken), std::move(put));
  }
  [[nodiscard]] causeway::parallel::swarm_wire::batch_set progress() const override { return over_->progress(); }
  [[nodiscard]] double seconds_per_micro_batch() override { return over_->seconds_per_micro_batch(); }
  [[nodiscard]] std::optional<std::uint32_t> asked_to_move() override { return over_->asked_to_move(); }
  [[nodiscard]] std::string describe() override { return over_->describe(); }

 private:
  void note(std::span<const causeway::parallel::swarm_holding> all, const causeway::parallel::swarm_holding& own) {
    using causeway::parallel::swarm_part;
    causeway::parallel::swarm_wire::batch_set wanted{own.done.size()};
    for (std::uint32_t m = 0; m < wanted.size(); ++m) wanted.add(m);
    const auto plan = causeway::parallel::plan_shares(all, own.step, wanted);
    shares_.clear();
    step_ = own.step;
    for (std::size_t p = 0; p < all.size(); ++p) {
      const std::uint32_t whole = plan.parts[p] == swarm_part::sum ? wanted.size() : 0;
      shares_.push_back(plan.parts[p] == swarm_part::own ? all[p].done.count() : whole);
    }
  }

  std::shared_ptr<swarm_round> over_;
  std::function<void(double)> measured_;
  std::vector<std::uint32_t> shares_;
  std::uint64_t step_ = 0;
};

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_NOTED_ROUND_HPP
