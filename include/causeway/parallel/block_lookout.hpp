// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_BLOCK_LOOKOUT_HPP
#define CAUSEWAY_PARALLEL_BLOCK_LOOKOUT_HPP

// A client's network: which servers are there, what they hold, how far away they are. The part of block_client.hpp that
// does not depend on the codec.

#include <causeway/config/config.hpp>
#include <causeway/core/clock.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/metrics.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/fabric.hpp>
#include <causeway/parallel/block_messages.hpp>
#include <causeway/stage/block_routing.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::parallel {

struct block_client_options {
  std::uint64_t run = 0;                        ///< names the weights: the servers'
  std::vector<std::string> dial{};              ///< addresses of servers; they tell of the rest
  std::int64_t most_rows = 1024;                ///< sent as one request; a batch goes in pieces of whole sequences
  duration patience = std::chrono::minutes{3};  ///< who answers later is left
  duration give_up = std::chrono::minutes{10};  ///< how long a step waits for a block that nobody serves
  duration heartbeat = std::chrono::seconds{1};
  stage::span_directory_options directory{};
};

/// To be used with the fabric's lock held, but for what is public.
class block_lookout : protected net::fabric_events {
 public:
  block_lookout(const block_lookout&) = delete;
  block_lookout& operator=(const block_lookout&) = delete;

  /// Waits until every block is served; false when the deadline came first.
  result<bool> wait_for_blocks(time_point deadline) {
    return fabric_->block(
        [this] {
          return !directory_.route({0, directory_.layers()}, {}, fabric_->now()).empty();
        },
        deadline);
  }
  /// A copy of what is known of servers.
  [[nodiscard]] stage::span_directory directory() {
    stage::span_directory now;
    fabric_->locked([&] { now = directory_; });
    return now;
  }

 protected:
  block_lookout(std::shared_ptr<net::fabric> fabric, std::uint64_t run, std::int64_t layers, block_client_options options,
                log_sink log)
      : fabric_{std::move(fabric)},
        options_{std::move(options)},
        run_{run},
        log_{std::move(log)},
        directory_{layers, options_.directory},
        addresses_{options_.dial.begin(), options_.dial.end()} {}
  ~block_lookout() override = default;

  void listen() {
    fabric_->attach(this);
    fabric_->locked([this] { on_wake(); });
  }

  [[nodiscard]] std::optional<net::peer_index> link_to(net::peer_id server) const {
    const auto found = std::find_if(links_.begin(), links_.end(), [&](const auto& l) { return l.second == server; });
    if (found == links_.end()) return std::nullopt;
    return found->first;
  }
  void post(net::peer_index link, const block_wire::message& m) { fabric_->post(link, block_wire::encode(run_, m)); }

  [[nodiscard]] error nobody_there(time_point now) const {
    const std::int64_t missing = directory_.first_missing({0, directory_.layers()}, now);
    if (missing == directory_.layers()) {
      return fail(errc::timeout, "block_client",
                  "every block is served, but by nobody who takes a request of this size: fewer rows at once (most_rows), "
                  "fewer prompts or a lower rank of adapters would do");
    }
    return fail(errc::timeout, "block_client",
                "block " + std::to_string(missing) + " of " + std::to_string(directory_.layers()) +
                    " is served by nobody who answers; start a server that holds it");
  }

  std::shared_ptr<net::fabric> fabric_;
  block_client_options options_;
  std::uint64_t run_;
  log_sink log_;
  stage::span_directory directory_;
  std::set<net::peer_index> down_;  // since somebody looked
  bool news_ = false;

 private:
  // ---- net::fabric_events

  void on_up(net::peer_index link, net::peer_id id, const std::string&) override {
    links_[link] = id;
    post(link, block_wire::probe{mark()});
  }
  void on_down(net::peer_index link, const error&) override {
    down_.insert(link);
    news_ = true;
    const auto found = links_.find(link);
    if (found == links_.end()) return;
    directory_.gone(found->second);
    links_.erase(found);
  }
  void on_unreachable(const std::string&, const error&) override {}
  void on_control(net::peer_index link, std::span<const std::byte> bytes) override {
    auto m = block_wire::decode(run_, bytes);
    if (!m) return fabric_->close(link, m.error().message);
    std::visit([&](auto& what) { hear(link, what); }, *m);
  }
  void on_wake() override {
    for (const std::string& a : addresses_) fabric_->dial(a);
    for (const auto& [link, id] : links_) post(link, block_wire::probe{mark()});
    fabric_->wake_at(fabric_->now() + options_.heartbeat);
  }

  void hear(net::peer_index link, const block_wire::announcement& a) {
    if (a.offer.blocks.last > directory_.layers()) return fabric_->close(link, "blocks that the model does not have");
    directory_.announced(links_[link], a.offer, fabric_->now() + std::chrono::milliseconds{a.milliseconds});
    news_ = true;
  }
  void hear(net::peer_index, const block_wire::addresses& a) {
    for (const std::string& one : a.list) {
      if (addresses_.size() < block_wire::most_addresses && addresses_.insert(one).second) fabric_->dial(one);
    }
  }
  void hear(net::peer_index, const block_wire::request&) {}
  void hear(net::peer_index link, const block_wire::probe& p) { post(link, block_wire::echo{p.mark}); }
  void hear(net::peer_index link, const block_wire::echo& e) {
    const std::uint64_t now = mark();
    if (e.mark <= now) directory_.probed(links_[link], static_cast<double>(now - e.mark) * 1e-9);
  }

  [[nodiscard]] std::uint64_t mark() const { return static_cast<std::uint64_t>(fabric_->now().since_start.count()); }

  std::set<std::string> addresses_;  // of servers
  std::map<net::peer_index, net::peer_id> links_;
};

}  // namespace causeway::inline CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_BLOCK_LOOKOUT_HPP
