// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COLLECTIVE_SITE_HPP
#define CAUSEWAY_COLLECTIVE_SITE_HPP

// Peers that sit close together and talk often: the devices of a machine or of a rack. What connects them (NVLink through
// NCCL, the run's own network) is behind this interface, so that a policy is the same for all of them, and its tests need
// no device.

#include <causeway/core/result.hpp>

#include <cstdint>
#include <span>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

/// All members call the same operations in the same order, with as many values. An operation returns when it is done here;
/// afterwards the values are everybody's, to the bit, unless it failed: then they are garbage, and a member that others
/// wait for may be gone. No operation waits for ever. One thread at a time.
class site {
 public:
  virtual ~site() = default;

  [[nodiscard]] virtual std::uint32_t size() const = 0;
  /// This member, 0 to size()-1.
  [[nodiscard]] virtual std::uint32_t rank() const = 0;

  /// data[i] = the mean over all members, in f32. NaN and infinity are an error or stay what they are.
  [[nodiscard]] virtual result<void> mean(std::span<float> data) = 0;
  /// data[i] = the sum over all members. Where nothing better is said, size() times the mean, which rounds once more unless
  /// size() is a power of two.
  [[nodiscard]] virtual result<void> sum(std::span<float> data) {
    CAUSEWAY_TRY(mean(data));
    for (float& v : data) v *= static_cast<float>(size());
    return {};
  }
  /// `data` of the member `from` replaces everybody's.
  [[nodiscard]] virtual result<void> broadcast(std::uint32_t from, std::span<float> data) = 0;
  /// Whether all members say yes.
  [[nodiscard]] virtual result<bool> all_of(bool mine) = 0;
};

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_SITE_HPP
