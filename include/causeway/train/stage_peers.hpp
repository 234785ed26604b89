// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TRAIN_STAGE_PEERS_HPP
#define CAUSEWAY_TRAIN_STAGE_PEERS_HPP

// The peers that hold the other stages of this peer's copy of a model, for what a policy decides for all of them alike:
// each stage exchanges in a group of its own, and sees only its part of what the model has moved.

#include <causeway/collective/channels.hpp>
#include <causeway/collective/group_view.hpp>
#include <causeway/collective/options.hpp>
#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/net/transport.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI {

/// Of one pipeline; of a whole model this peer alone. For the trainer's thread.
class stage_peers {
 public:
  /// The stages are at `members` of `world`, in their order, with this peer among them. `world` must stay where it is.
  /// `copies`: parts of this peer's flat parameters that another of them holds, too, and counts.
  CAUSEWAY_DECL void form(net::any_transport& world, std::vector<net::peer_index> members, std::vector<index_range> copies);

  /// The same where stages come and go: `peers.sum(values, options)` adds up over all blocks of the model, each once. They
  /// must stay where they are. In a swarm, values are there once the exchange has gone through that they were given in, and
  /// must stay where they are till then.
  template <class Peers>
  void ask(Peers& peers) {
    asked_of_ = &peers;
    ask_ = [](void* of, std::span<double> values, const collective::collective_options& options) {
      return static_cast<Peers*>(of)->sum(values, options);
    };
    if constexpr (requires { peers.is_first_stage(); }) {
      first_ = [](const void* of) { return static_cast<const Peers*>(of)->is_first_stage(); };
    }
  }

  /// 1: the model is whole, or stages come and go.
  [[nodiscard]] std::size_t count() const noexcept { return members_.empty() ? 1 : members_.size(); }
  CAUSEWAY_DECL [[nodiscard]] bool is_first() const;

  /// From a policy's start(): it will ask for sums of so many numbers in one exchange, at most. Of several policies, all
  /// together.
  void will_ask(std::size_t numbers) noexcept { most_asked_ += numbers; }
  [[nodiscard]] std::size_t most_asked() const noexcept { return most_asked_; }

  /// values[i] ← its sum over all stages, added up in their order: the same bits on all, which must all call it, equally
  /// often. One latency, and 8 bytes a value to each. Nothing is sent where the model is whole.
  CAUSEWAY_DECL result<void> sum(std::span<double> values, const collective::collective_options& options);

  /// What the first stage has found, on all of them; what the others give does not count. Where the first one has failed,
  /// the others fail, too, as if they had lost it.
  CAUSEWAY_DECL result<double> of_first(const result<double>& found, const collective::collective_options& options);

  /// The norm of all stages' vectors, of which this one's has the norm `own`; copies count as often as they are there.
  CAUSEWAY_DECL result<float> norm(float own, const collective::collective_options& options);

  /// errc::unsupported where two stages hold the same parameters (a tied table, or all of a stage where micro-batches go
  /// two ways): for policies in whose groups they would become two versions. All stages must ask. Where stages come and go
  /// their executor refuses it before.
  CAUSEWAY_DECL result<void> refuse_copies(const char* policy, const collective::collective_options& options);

  /// Σ x² over a row that `ranges` of the flat parameters were gathered to, without copies.
  CAUSEWAY_DECL [[nodiscard]] double squares(thread_pool& pool, std::span<const float> row,
                                             std::span<const index_range> ranges) const;

 private:
  net::any_transport* world_ = nullptr;
  std::vector<net::peer_index> members_;
  std::vector<index_range> copies_;
  std::uint64_t asked_ = 0;  ///< names the messages of a sum
  std::size_t most_asked_ = 0;
  void* asked_of_ = nullptr;
  bool (*first_)(const void*) = nullptr;
  result<void> (*ask_)(void*, std::span<double>, const collective::collective_options&) = nullptr;
};

}}  // namespace causeway::CAUSEWAY_ABI

#ifndef CAUSEWAY_COMPILED
#include <causeway/train/impl/stage_peers.ipp>
#endif

#endif  // CAUSEWAY_TRAIN_STAGE_PEERS_HPP
