// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TRAIN_FIXED_GROUP_HPP
#define CAUSEWAY_TRAIN_FIXED_GROUP_HPP

// The peers of a run that are the same ones from its beginning to its end. Nobody is let in or voted out: whoever wants to
// exchange may, always in the same view, and a round is committed as soon as it is made.

#include <causeway/core/clock.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/rng.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/net/transport.hpp>
#include <causeway/policy/traits.hpp>
#include <causeway/train/run_group.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace detail {

/// Not copied or moved: transports refer to each other. Threading: as run_group.
class fixed_group final : public run_group {
 public:
  /// `deadline`: of each exchange, on the transport's clock.
  CAUSEWAY_DECL fixed_group(net::any_transport world, time_point deadline);
  fixed_group(const fixed_group&) = delete;
  fixed_group& operator=(const fixed_group&) = delete;

  [[nodiscard]] net::any_transport& world() noexcept { return world_; }  ///< to all peers of the run
  /// To those who hold the same parameters: all of them, until `form` was called.
  [[nodiscard]] net::any_transport& transport() noexcept { return members_ ? *members_ : world_; }
  /// From now on the group is of these peers of the world, this one among them, in their order.
  CAUSEWAY_DECL void form(std::vector<net::peer_index> members);

  [[nodiscard]] std::uint64_t identity() const override { return of_members().self(); }
  [[nodiscard]] std::uint32_t expected() const override { return of_members().size(); }
  [[nodiscard]] bool is_fixed() const override { return true; }
  [[nodiscard]] CAUSEWAY_INLINE round_entry view() const override;

  result<void> open(shared_state, thread_pool&) override { return no_membership(); }
  result<round_entry> enter(std::uint64_t, std::uint64_t) override { return view(); }
  result<void> exchanged(std::span<const float>) override { return {}; }
  CAUSEWAY_INLINE void made(const std::function<std::uint64_t(std::uint64_t)>& hash) override;
  result<verdict> decide(const result<void>&, bool) override { return no_membership(); }

  [[nodiscard]] std::uint64_t round() const override { return round_; }
  [[nodiscard]] std::uint64_t parent() const override { return parent_; }
  [[nodiscard]] std::uint64_t state_hash() const override { return hash_; }
  [[nodiscard]] std::uint64_t contributed() const override { return 0; }
  [[nodiscard]] std::vector<std::uint64_t> draw(std::uint64_t, std::uint64_t) override { return {}; }
  [[nodiscard]] bool budget_used() const override { return false; }

  void starts_from(std::uint64_t hash) noexcept { parent_ = hash; }  ///< of the parameters that a run begins with

  template <class Archive>
  void serialize(Archive& ar) {
    ar(round_, parent_);
  }

 private:
  [[nodiscard]] const net::any_transport& of_members() const noexcept { return members_ ? *members_ : world_; }
  CAUSEWAY_DECL static error no_membership();

  net::any_transport world_;
  std::optional<net::any_transport> members_;
  time_point deadline_;
  std::uint64_t round_ = 0;
  std::uint64_t parent_ = 0;
  std::uint64_t hash_ = 0;
};

}}}  // namespace causeway::CAUSEWAY_ABI::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/train/impl/fixed_group.ipp>
#endif

#endif  // CAUSEWAY_TRAIN_FIXED_GROUP_HPP
