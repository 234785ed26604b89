// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_EXPERTS_EXPERT_HOST_HPP
#define CAUSEWAY_PARALLEL_EXPERTS_EXPERT_HOST_HPP

// A peer that holds experts and serves whoever asks (Learning@home: Ryabinin and Gusev, NeurIPS 2020). Each backward moves
// its expert at once, so experts are trained without rounds: by many trainers, with gradients of different ages. It says
// again and again which experts it has; when it falls silent they are forgotten.

#include <causeway/config/config.hpp>
#include <causeway/core/clock.hpp>
#include <causeway/core/hash.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/fabric.hpp>
#include <causeway/parallel/experts/expert_messages.hpp>
#include <causeway/stage/expert.hpp>
#include <causeway/stage/expert_directory.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

/// Equal on all trainers and hosts of a mixture.
struct expert_mixture_options {
  std::uint64_t run = 0;
  std::vector<std::uint32_t> sides{16, 16};  ///< of the grid of a layer's experts
  std::int64_t width = 0;                    ///< of a row
  std::uint32_t layers = 1;                  ///< of experts; expert e of layer l is l · places + e
};

/// Of all layers: the layer is the first coordinate.
CAUSEWAY_DECL [[nodiscard]] stage::expert_grid grid_of(const expert_mixture_options& o);

/// What messages carry: equal on peers that understand each other.
CAUSEWAY_DECL [[nodiscard]] std::uint64_t agreement(const expert_mixture_options& o);

struct expert_host_options {
  expert_mixture_options mixture{};
  duration heartbeat = std::chrono::seconds{1};
  duration life = std::chrono::seconds{5};  ///< of an announcement
  std::size_t most_queued = 256;            ///< requests that wait here; more are refused at once
};

/// Threading: `serve` is called by one thread; events come as the fabric has them.
template <stage::Expert E>
class expert_host final : private net::fabric_events {
 public:
  expert_host(std::shared_ptr<net::fabric> fabric, expert_host_options options, std::map<stage::expert_id, E> experts)
      : fabric_{std::move(fabric)},
        options_{std::move(options)},
        run_{agreement(options_.mixture)},
        experts_{std::move(experts)} {}
  expert_host(const expert_host&) = delete;
  expert_host& operator=(const expert_host&) = delete;
  ~expert_host() override { fabric_->attach(nullptr); }

  /// Begins to listen and to announce. errc::invalid_argument for experts that the mixture has no place for.
  result<void> open() {
    const stage::expert_grid grid = grid_of(options_.mixture);
    for (const auto& [id, expert] : experts_) {
      if (id < grid.places() && expert.width() == options_.mixture.width && experts_.size() <= expert_wire::most_experts)
        continue;
      return fail(errc::invalid_argument, "expert_host",
                  "expert " + std::to_string(id) + " is outside of the grid, of another width, or one of too many");
    }
    fabric_->attach(this);
    fabric_->locked([this] { on_wake(); });
    return {};
  }

  /// Answers requests, in the order in which they came, until `stopped`, asked with the fabric's lock held, says so, or the
  /// deadline passes; both are no error. errc::cancelled: the peer was asked to stop.
  result<void> serve(const std::function<bool()>& stopped, time_point deadline = no_deadline) {
    for (;;) {
      bool stop = false;
      const auto ready = [&] { return (stop = stopped()) || !queue_.empty(); };
      CAUSEWAY_ASSIGN(const bool happened, fabric_->block(ready, deadline));
      if (!happened || stop) return {};
      std::optional<waiting> next;
      fabric_->locked([&] {
        next = std::move(queue_.front());
        queue_.pop_front();
      });
      expert_wire::answer a{next->what.number, compute(next->what)};
      fabric_->locked([&] { post(next->link, std::move(a)); });
    }
  }

  /// Call between two `serve`.
  [[nodiscard]] std::map<stage::expert_id, E>& experts() noexcept { return experts_; }
  /// Requests that could not be answered with values.
  [[nodiscard]] std::uint64_t refused() const noexcept { return refused_; }

 private:
  struct waiting {
    net::peer_index link = 0;
    expert_wire::request what;
  };

  void post(net::peer_index link, expert_wire::message m) {
    fabric_->post(link, expert_wire::encode(run_, m), std::holds_alternative<expert_wire::answer>(m));
  }

  /// Nothing where the request cannot be served.
  std::vector<float> compute(const expert_wire::request& r) {
    const auto found = experts_.find(r.expert);
    const std::size_t parts = r.backward != 0 ? 2 : 1, count = r.values.size() / parts;
    const auto width = static_cast<std::size_t>(options_.mixture.width);
    std::vector<float> out(count);
    const std::span<const float> x = std::span{r.values}.first(count), dy = std::span{r.values}.subspan(count);
    const bool fits = found != experts_.end() && count > 0 && count % width == 0 && r.values.size() == count * parts;
    const auto works = [&](E& e) { return r.backward != 0 ? e.backward(x, dy, out) : e.forward(x, out); };
    const auto finite = [](float v) { return std::isfinite(v); };
    if (fits && works(found->second) && std::all_of(out.begin(), out.end(), finite)) return out;
    ++refused_;
    return {};
  }

  void announce(net::peer_index link) {
    expert_wire::announcement a{
        static_cast<std::uint32_t>(std::chrono::duration_cast<std::chrono::milliseconds>(options_.life).count()), {}};
    for (const auto& [id, expert] : experts_) a.experts.push_back(id);
    post(link, std::move(a));
  }

  // ---- net::fabric_events

  void on_up(net::peer_index link, net::peer_id, const std::string&) override {
    links_.insert(link);
    announce(link);
  }
  void on_down(net::peer_index link, const error&) override {
    links_.erase(link);
    std::erase_if(queue_, [&](const waiting& w) { return w.link == link; });  // nobody waits for the answers
  }
  void on_unreachable(const std::string&, const error&) override {}
  void on_control(net::peer_index link, std::span<const std::byte> bytes) override {
    auto m = expert_wire::decode(run_, bytes);
    if (!m) return fabric_->close(link, m.error().message);
    auto* const r = std::get_if<expert_wire::request>(&*m);
    if (r == nullptr) return;  // hosts may be connected to each other
    if (queue_.size() < options_.most_queued) {
      queue_.push_back({link, std::move(*r)});
    } else {
      post(link, expert_wire::answer{r->number, {}});
    }
  }
  void on_wake() override {
    for (const net::peer_index link : links_) announce(link);
    fabric_->wake_at(fabric_->now() + options_.heartbeat);
  }

  std::shared_ptr<net::fabric> fabric_;
  expert_host_options options_;
  std::uint64_t run_;
  std::map<stage::expert_id, E> experts_;
  std::set<net::peer_index> links_;
  std::deque<waiting> queue_;
  std::uint64_t refused_ = 0;
};

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#ifndef CAUSEWAY_COMPILED
#include <causeway/parallel/experts/impl/expert_host.ipp>
#endif

#endif  // CAUSEWAY_PARALLEL_EXPERTS_EXPERT_HOST_HPP
