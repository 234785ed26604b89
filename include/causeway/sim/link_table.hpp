// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_SIM_LINK_TABLE_HPP
#define CAUSEWAY_SIM_LINK_TABLE_HPP

// Measured networks from text: how long a packet takes from one region to another, and what one connection carries. The
// format is in docs/reference/simulation_files.md.

#include <causeway/core/clock.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/table_text.hpp>
#include <causeway/sim/options.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim {

/// One direction between two regions, or within one.
struct region_link {
  std::string from;
  std::string to;
  duration one_way{0};
  double bytes_per_s = 0;
  duration jitter{0};
  double loss = 0;  ///< part of the packets, in [0, 1)
};

/// A network between regions.
class link_table {
 public:
  /// Reads CSV; `name` is for messages. errc::bad_text names the line; errc::too_large beyond 16 MiB or 4,096 regions.
  CAUSEWAY_DECL static result<link_table> parse(std::string_view text, const std::string& name = "link table");

  /// In the order of their first mention.
  [[nodiscard]] const std::vector<std::string>& regions() const noexcept { return regions_; }

  CAUSEWAY_DECL [[nodiscard]] std::optional<std::uint32_t> index_of(std::string_view region) const;

  /// The link from one region to another, by their places in `regions`; nullptr if the table has none.
  CAUSEWAY_DECL [[nodiscard]] const region_link* find(std::uint32_t from, std::uint32_t to) const;

  /// Pairs of regions that have no link.
  CAUSEWAY_DECL [[nodiscard]] std::vector<std::pair<std::string, std::string>> missing() const;

  /// Gives a sim::world these links: region n of the world is region n of the table.
  template <class World>
  void apply_to(World& world) const {
    for (const auto& [pair, l] : links_) {
      world.set_region_link(pair.first, pair.second, {l.one_way, l.bytes_per_s, l.jitter, l.loss});
    }
  }

 private:
  static constexpr std::size_t most_regions = 4096;

  struct columns {
    bool round_trip = true;
    std::size_t count = 0;
  };

  CAUSEWAY_DECL static result<columns> read_header(std::string_view line, const text::place& place);
  CAUSEWAY_DECL result<void> read_row(std::string_view line, const columns& header, const text::place& place);
  CAUSEWAY_DECL result<std::uint32_t> region(std::string_view name, const text::place& place);

  std::vector<std::string> regions_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, region_link> links_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, bool> mirrored_;  // came from a row of the other direction
};

}}}  // namespace causeway::CAUSEWAY_ABI::sim

#ifndef CAUSEWAY_COMPILED
#include <causeway/sim/impl/link_table.ipp>
#endif

#endif  // CAUSEWAY_SIM_LINK_TABLE_HPP
