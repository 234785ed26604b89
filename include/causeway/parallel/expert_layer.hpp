// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_EXPERT_LAYER_HPP
#define CAUSEWAY_PARALLEL_EXPERT_LAYER_HPP

// A layer whose parameters lie on other peers (the decentralised mixture of experts of Learning@home: Ryabinin and Gusev,
// NeurIPS 2020). A gate chooses a few experts for each row among those that have announced themselves, the rows travel to
// their hosts, and y = Σ w·f(x) over the experts that answered in time. A backward brings each expert its rows again; who
// does not answer then is not trained this time, and its part of the gradient is missing.

#include <causeway/config/config.hpp>
#include <causeway/core/clock.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/net/fabric.hpp>
#include <causeway/parallel/expert_host.hpp>
#include <causeway/parallel/expert_messages.hpp>
#include <causeway/stage/expert_directory.hpp>
#include <causeway/stage/product_key_gate.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::parallel {

struct expert_layer_options {
  expert_mixture_options mixture{};
  stage::product_key_options gate{};
  std::vector<std::string> dial{};              ///< addresses of hosts
  duration patience = std::chrono::seconds{5};  ///< who answers later is left out
  duration redial = std::chrono::seconds{1};
};

/// A micro-batch between its forward and its backward.
struct expert_pass {
  std::vector<float> x;
  stage::expert_choices choices;
  std::vector<std::uint8_t> answered;  ///< of each choice
  std::vector<float> weights;          ///< of each choice
  std::vector<float> outputs;          ///< of each choice, `width` values; unspecified where it did not answer
};

/// One thread calls; events come as the fabric has them. Bytes for each row and expert: 4 · width there and back in a
/// forward, twice as many there in a backward.
class expert_layer final : private net::fabric_events {
 public:
  static result<std::unique_ptr<expert_layer>> create(std::shared_ptr<net::fabric> fabric, expert_layer_options options) {
    if (options.mixture.width < 1 || 2 * static_cast<std::size_t>(options.mixture.width) > expert_wire::most_values) {
      return fail(errc::invalid_argument, "expert_layer",
                  "rows of " + std::to_string(options.mixture.width) + " values; a message takes 1 to " +
                      std::to_string(expert_wire::most_values / 2));
    }
    const stage::expert_grid grid{options.mixture.sides};
    CAUSEWAY_ASSIGN(auto gate, stage::product_key_gate::create(options.mixture.width, grid, options.gate));
    return std::unique_ptr<expert_layer>{new expert_layer{std::move(fabric), std::move(options), grid, std::move(gate)}};
  }
  expert_layer(const expert_layer&) = delete;
  expert_layer& operator=(const expert_layer&) = delete;
  ~expert_layer() override { fabric_->attach(nullptr); }

  /// Waits until that many experts have announced themselves; false when the deadline came first.
  result<bool> wait_for_experts(std::size_t count, time_point deadline) {
    return fabric_->block([&] { return directory_.size() >= count; }, deadline);
  }

  /// y = Σ w·f(x) for x [rows, width]; zero for rows of which no expert answered. errc::timeout where that is all of them:
  /// nobody is there to be trained.
  result<expert_pass> forward(thread_pool& pool, std::span<const float> x, std::span<float> y) {
    CAUSEWAY_EXPECT(y.size() == x.size() && x.size() % width() == 0);
    expert_pass pass{{x.begin(), x.end()}, {}, {}, {}, {}};
    CAUSEWAY_ASSIGN(pass.choices, choose(pool, x));
    const std::size_t count = pass.choices.all.size();
    pass.outputs.assign(count * width(), 0.0F);
    CAUSEWAY_ASSIGN(pass.answered, ask(pass, {}, pass.outputs));
    pass.weights.assign(count, 0.0F);
    stage::weigh_experts(pass.choices, pass.answered, pass.weights);
    std::fill(y.begin(), y.end(), 0.0F);
    for_choices(pass.choices, [&](std::size_t r, std::size_t c) {
      for (std::size_t i = 0; i < width(); ++i) y[r * width() + i] += pass.weights[c] * pass.outputs[c * width() + i];
    });
    if (x.empty() || std::any_of(pass.answered.begin(), pass.answered.end(), [](auto a) { return a != 0; })) return pass;
    return fail(errc::timeout, "expert_layer",
                "no expert has answered; are their hosts running, and reachable at the addresses to dial?");
  }

  /// dx ← the gradient by x where dy is that by y; adds to the gate's gradients. Experts move by themselves.
  result<void> backward(thread_pool& pool, const expert_pass& pass, std::span<const float> dy, std::span<float> dx) {
    CAUSEWAY_EXPECT(dy.size() == pass.x.size() && dx.size() == dy.size());
    const std::size_t count = pass.choices.all.size();
    std::vector<float> d_weights(count), d_outputs(count * width()), d_inputs(count * width());
    for_choices(pass.choices, [&](std::size_t r, std::size_t c) {
      for (std::size_t i = 0; i < width(); ++i) {
        const float d = dy[r * width() + i];
        if (pass.answered[c] != 0) d_weights[c] += d * pass.outputs[c * width() + i];
        d_outputs[c * width() + i] = pass.weights[c] * d;
      }
    });
    CAUSEWAY_ASSIGN(const auto answered, ask(pass, d_outputs, d_inputs));
    std::fill(dx.begin(), dx.end(), 0.0F);
    for_choices(pass.choices, [&](std::size_t r, std::size_t c) {
      if (answered[c] == 0) lost_ += pass.answered[c];
      for (std::size_t i = 0; i < width() && answered[c] != 0; ++i) dx[r * width() + i] += d_inputs[c * width() + i];
    });
    stage::weigh_experts_backward(pass.choices, pass.weights, d_weights);
    gate_.backward(pool, pass.x, pass.choices, d_weights, dx);
    return {};
  }

  [[nodiscard]] stage::product_key_gate& gate() noexcept { return gate_; }
  /// Rows whose backward an expert did not answer.
  [[nodiscard]] std::uint64_t lost_backwards() const noexcept { return lost_; }
  /// Experts that are known to be alive.
  [[nodiscard]] std::size_t alive() {
    std::size_t n = 0;
    fabric_->locked([&] { n = directory_.size(); });
    return n;
  }

 private:
  /// A request under way: rows of one expert.
  struct piece {
    net::peer_index link = 0;
    std::vector<std::size_t> choices;
    std::vector<float> values;  // the answer
    bool over = false;
  };

  expert_layer(std::shared_ptr<net::fabric> fabric, expert_layer_options options, const stage::expert_grid& grid,
               stage::product_key_gate gate)
      : fabric_{std::move(fabric)},
        options_{std::move(options)},
        run_{agreement(options_.mixture)},
        directory_{grid},
        gate_{std::move(gate)} {
    fabric_->attach(this);
    fabric_->locked([this] { on_wake(); });
  }

  [[nodiscard]] std::size_t width() const noexcept { return static_cast<std::size_t>(options_.mixture.width); }

  template <class F>
  static void for_choices(const stage::expert_choices& choices, F&& f) {
    for (std::size_t r = 0; r < choices.rows(); ++r) {
      for (std::size_t c = choices.first[r]; c < choices.first[r + 1]; ++c) f(r, c);
    }
  }

  result<stage::expert_choices> choose(thread_pool& pool, std::span<const float> x) {
    std::optional<stage::expert_directory> now;  // events must not wait for the gate
    fabric_->locked([&] {
      directory_.expire(fabric_->now());
      now = directory_;
    });
    return gate_.choose(pool, x, *now);
  }

  // ---- asking
  // ------------------------------------------------------------------------------------------------------------

  /// Every choice's expert: its output for its row, or with `gradients`, one row for each choice, what a backward gives.
  /// Says who answered; `out` has the others' rows as they were.
  result<std::vector<std::uint8_t>> ask(const expert_pass& pass, std::span<const float> gradients, std::span<float> out) {
    std::vector<std::uint8_t> answered(pass.choices.all.size(), 0);
    time_point deadline;
    fabric_->locked([&] {
      deadline = fabric_->now() + options_.patience;
      send_all(pass, gradients);
    });
    const auto all = [this] {
      return std::all_of(under_way_.begin(), under_way_.end(), [](const auto& p) { return p.second.over; });
    };
    const auto happened = fabric_->block(all, deadline);
    fabric_->locked([&] {
      for (const auto& [number, p] : under_way_) take(pass, p, answered, out);
      under_way_.clear();
    });
    if (!happened) return happened.error();
    return answered;
  }

  /// Choices by expert, and by row within one.
  [[nodiscard]] static std::vector<std::size_t> by_expert(const stage::expert_choices& choices) {
    std::vector<std::size_t> order(choices.all.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return choices.all[a].expert < choices.all[b].expert; });
    return order;
  }

  void send_all(const expert_pass& pass, std::span<const float> gradients) {
    const std::size_t most = expert_wire::most_values / width() / (gradients.empty() ? 1 : 2);
    std::vector<std::size_t> row_of(pass.choices.all.size());
    for_choices(pass.choices, [&](std::size_t r, std::size_t c) { row_of[c] = r; });
    std::vector<std::size_t> rows;
    const auto order = by_expert(pass.choices);
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (gradients.empty() || pass.answered[order[i]] != 0) rows.push_back(order[i]);
      const bool ends = i + 1 == order.size() || pass.choices.all[order[i]].expert != pass.choices.all[order[i + 1]].expert;
      if (!rows.empty() && (ends || rows.size() == most)) send(pass, gradients, row_of, std::exchange(rows, {}));
    }
  }

  void send(const expert_pass& pass, std::span<const float> gradients, const std::vector<std::size_t>& row_of,
            std::vector<std::size_t> choices) {
    const stage::expert_id expert = pass.choices.all[choices[0]].expert;
    const auto holder = holders_.find(expert);
    if (holder == holders_.end()) return;  // it went a moment ago
    expert_wire::request r{++last_, gradients.empty() ? std::uint8_t{0} : std::uint8_t{1}, expert, {}};
    const auto add = [&](std::span<const float> from, std::size_t row) {
      const auto values = from.subspan(row * width(), width());
      r.values.insert(r.values.end(), values.begin(), values.end());
    };
    for (const std::size_t c : choices) add(pass.x, row_of[c]);
    for (const std::size_t c : choices) {
      if (!gradients.empty()) add(gradients, c);
    }
    under_way_[r.number] = {holder->second, std::move(choices), {}, false};
    fabric_->post(holder->second, expert_wire::encode(run_, r), true);
  }

  /// What came of a request. An expert that did not answer is not asked again before it announces itself.
  void take(const expert_pass& pass, const piece& p, std::vector<std::uint8_t>& answered, std::span<float> out) {
    if (p.values.empty()) return forget(pass.choices.all[p.choices[0]].expert);
    for (std::size_t i = 0; i < p.choices.size(); ++i) {
      answered[p.choices[i]] = 1;
      std::copy_n(p.values.begin() + static_cast<std::ptrdiff_t>(i * width()), width(),
                  out.begin() + static_cast<std::ptrdiff_t>(p.choices[i] * width()));
    }
  }
  void forget(stage::expert_id e) {
    directory_.remove(e);
    holders_.erase(e);
  }

  // ---- net::fabric_events

  void on_up(net::peer_index, net::peer_id, const std::string&) override {}
  void on_down(net::peer_index link, const error&) override {
    for (auto& [number, p] : under_way_) p.over = p.over || p.link == link;
    std::vector<stage::expert_id> gone;
    for (const auto& [expert, holder] : holders_) {
      if (holder == link) gone.push_back(expert);
    }
    for (const stage::expert_id e : gone) forget(e);
  }
  void on_unreachable(const std::string&, const error&) override {}
  void on_control(net::peer_index link, std::span<const std::byte> bytes) override {
    auto m = expert_wire::decode(run_, bytes);
    if (!m) return fabric_->close(link, m.error().message);
    if (const auto* const a = std::get_if<expert_wire::announcement>(&*m)) return learn(link, *a);
    if (auto* const a = std::get_if<expert_wire::answer>(&*m)) return note(link, std::move(*a));
  }
  void on_wake() override {
    for (const std::string& a : options_.dial) fabric_->dial(a);
    fabric_->wake_at(fabric_->now() + options_.redial);
  }

  void learn(net::peer_index link, const expert_wire::announcement& a) {
    for (const stage::expert_id e : a.experts) {
      if (e >= directory_.grid().places()) return fabric_->close(link, "experts outside of the grid");
    }
    for (const stage::expert_id e : a.experts) {
      directory_.announce(e, fabric_->now() + std::chrono::milliseconds{a.milliseconds});
      holders_[e] = link;
    }
  }

  /// Answers that come late, or that nobody asked this peer for, find nothing here.
  void note(net::peer_index link, expert_wire::answer a) {
    const auto found = under_way_.find(a.number);
    if (found == under_way_.end() || found->second.link != link || found->second.over) return;
    piece& p = found->second;
    p.over = true;
    if (a.values.empty()) return;
    if (a.values.size() != p.choices.size() * width()) return fabric_->close(link, "an answer of another length");
    p.values = std::move(a.values);
  }

  std::shared_ptr<net::fabric> fabric_;
  expert_layer_options options_;
  std::uint64_t run_;
  stage::expert_directory directory_;
  std::map<stage::expert_id, net::peer_index> holders_;
  std::map<std::uint64_t, piece> under_way_;
  std::uint64_t last_ = 0;  // number of a request
  std::uint64_t lost_ = 0;
  stage::product_key_gate gate_;
};

}  // namespace causeway::inline CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_EXPERT_LAYER_HPP
