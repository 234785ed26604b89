// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_EPOCHS_HPP
#define CAUSEWAY_NET_EPOCHS_HPP

// Epochs of data messages are of two kinds. Those of views end with the next view; lasting ones, in the upper half of the
// numbers, are of conversations that go on while views come and go, and end only with a later lasting one.

#include <causeway/config/config.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

inline constexpr std::uint32_t first_lasting_epoch = std::uint32_t{1} << 31U;

/// The lasting epoch of what has this number: numbers only grow.
constexpr std::uint32_t lasting_epoch(std::uint64_t number) noexcept {
  return static_cast<std::uint32_t>(number) | first_lasting_epoch;
}

/// Which epochs are over, of each kind. A regular value.
class past_epochs {
 public:
  constexpr past_epochs() = default;
  constexpr explicit past_epochs(std::uint32_t epoch) noexcept { end_before(epoch); }

  /// Epochs before this one are over, of its kind. False: they were already.
  constexpr bool end_before(std::uint32_t epoch) noexcept {
    std::uint32_t& first = first_[kind_of(epoch)];
    if (epoch <= first) return false;
    first = epoch;
    return true;
  }
  [[nodiscard]] constexpr bool contains(std::uint32_t epoch) const noexcept { return epoch < first_[kind_of(epoch)]; }
  /// Of each kind the first that is not over.
  [[nodiscard]] constexpr const std::array<std::uint32_t, 2>& ends() const noexcept { return first_; }

 private:
  static constexpr std::size_t kind_of(std::uint32_t epoch) noexcept { return epoch < first_lasting_epoch ? 0 : 1; }

  std::array<std::uint32_t, 2> first_{0, first_lasting_epoch};
};

}}}  // namespace causeway::CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_EPOCHS_HPP
