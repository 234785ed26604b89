// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_EXPERTS_EXPERT_CLIENT_HPP
#define CAUSEWAY_PARALLEL_EXPERTS_EXPERT_CLIENT_HPP

// A trainer's side of experts that lie on other peers: who is alive, and requests to many of them at once, of which as many
// are answered as there are hosts that can. What is asked, and why, is the layers' business (expert_layer.hpp).

#include <causeway/config/config.hpp>
#include <causeway/core/clock.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/fabric.hpp>
#include <causeway/parallel/experts/expert_host.hpp>
#include <causeway/parallel/experts/expert_messages.hpp>
#include <causeway/stage/expert_directory.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

struct expert_client_options {
  expert_mixture_options mixture{};
  std::vector<std::string> dial{};              ///< addresses of hosts
  duration patience = std::chrono::seconds{5};  ///< who answers later is left out
  duration redial = std::chrono::seconds{1};
};

/// What experts are asked: for each item, expert[i] of the whole mixture about row[i] of x; with gradients, [items, width],
/// for a backward. Items that are not `wanted` (empty: all are) are not asked.
struct expert_question {
  std::span<const stage::expert_id> expert;
  std::span<const std::size_t> row;
  std::span<const float> x;
  std::span<const float> gradients{};
  std::span<const std::uint8_t> wanted{};
};

/// One thread calls; events come as the fabric has them.
class expert_client final : private net::fabric_events {
 public:
  CAUSEWAY_DECL static result<std::unique_ptr<expert_client>> create(std::shared_ptr<net::fabric> fabric,
                                                                     expert_client_options options);
  expert_client(const expert_client&) = delete;
  expert_client& operator=(const expert_client&) = delete;
  ~expert_client() override { fabric_->attach(nullptr); }

  [[nodiscard]] const expert_mixture_options& mixture() const noexcept { return options_.mixture; }

  /// Waits until that many experts have announced themselves; false when the deadline came first.
  CAUSEWAY_DECL result<bool> wait_for_experts(std::size_t count, time_point deadline);
  /// Who is known to be alive, on the grid of all layers.
  CAUSEWAY_DECL [[nodiscard]] stage::expert_directory alive();

  /// Asks all at once, and waits for the answers, `width` values for each item, into `out`. Says which items have one;
  /// `out` has the others' as they were. Who did not answer in time is not asked again before it announces itself.
  CAUSEWAY_DECL result<std::vector<std::uint8_t>> ask(const expert_question& q, std::span<float> out);

 private:
  /// A request under way: items of one expert.
  struct piece {
    net::peer_index link = 0;
    std::vector<std::size_t> items;
    std::vector<float> values;  // the answer
    bool over = false;
  };

  CAUSEWAY_DECL expert_client(std::shared_ptr<net::fabric> fabric, expert_client_options options);

  [[nodiscard]] std::size_t width() const noexcept { return static_cast<std::size_t>(options_.mixture.width); }

  /// Items by expert, and by row within one.
  CAUSEWAY_DECL [[nodiscard]] static std::vector<std::size_t> by_expert(const expert_question& q);

  CAUSEWAY_DECL void send_all(const expert_question& q);

  CAUSEWAY_DECL void send(const expert_question& q, std::vector<std::size_t> items);

  CAUSEWAY_DECL void take(const expert_question& q, const piece& p, std::vector<std::uint8_t>& answered,
                          std::span<float> out);
  CAUSEWAY_DECL void forget(stage::expert_id e);

  // ---- net::fabric_events

  void on_up(net::peer_index, net::peer_id, const std::string&) override {}
  CAUSEWAY_INLINE void on_down(net::peer_index link, const error&) override;
  void on_unreachable(const std::string&, const error&) override {}
  CAUSEWAY_INLINE void on_control(net::peer_index link, std::span<const std::byte> bytes) override;
  CAUSEWAY_INLINE void on_wake() override;

  CAUSEWAY_DECL void learn(net::peer_index link, const expert_wire::announcement& a);

  /// Answers that come late, or that nobody asked this peer for, find nothing here.
  CAUSEWAY_DECL void note(net::peer_index link, expert_wire::answer a);

  std::shared_ptr<net::fabric> fabric_;
  expert_client_options options_;
  std::uint64_t run_;
  stage::expert_directory directory_;
  std::map<stage::expert_id, net::peer_index> holders_;
  std::map<std::uint64_t, piece> under_way_;
  std::uint64_t last_ = 0;  // number of a request
};

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#ifndef CAUSEWAY_COMPILED
#include <causeway/parallel/experts/impl/expert_client.ipp>
#endif

#endif  // CAUSEWAY_PARALLEL_EXPERTS_EXPERT_CLIENT_HPP
