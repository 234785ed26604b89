// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COLLECTIVE_SERVER_RESIDUAL_HPP
#define CAUSEWAY_COLLECTIVE_SERVER_RESIDUAL_HPP

// What the owner of a part lost when it encoded the part's mean, to be added to the next mean: the second half of double
// error feedback (Tang et al. 2019, DoubleSqueeze; CocktailSGD). A round that is tried again must start from the residual
// of the round before, so the new one counts only once a later round begins.

#include <causeway/config/config.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

/// Of one part of one row. Memory: twice the part. The part may change from round to round: what is known of it stays.
class server_residual {
 public:
  /// A try at round `step` begins.
  CAUSEWAY_DECL void begin(std::uint64_t step);

  /// mean += residual, for the values of the row from `begin` on.
  CAUSEWAY_DECL void add_to(std::size_t begin, std::span<float> mean) const;

  /// Where the residual of this try is to be written.
  CAUSEWAY_DECL [[nodiscard]] std::span<float> next(std::size_t begin, std::size_t size);

  /// The try went through.
  void finish() noexcept { finished_ = true; }

  void serialize(auto& ar) { ar(kept_.begin, kept_.values, next_.begin, next_.values, step_, finished_); }

 private:
  struct piece {
    std::uint64_t begin = 0;
    std::vector<float> values;
  };

  piece kept_;
  piece next_;
  std::uint64_t step_ = 0;
  bool finished_ = false;
};

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#ifndef CAUSEWAY_COMPILED
#include <causeway/collective/impl/server_residual.ipp>
#endif

#endif  // CAUSEWAY_COLLECTIVE_SERVER_RESIDUAL_HPP
