// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_FORMATS_IMPL_SAFETENSORS_IPP
#define CAUSEWAY_FORMATS_IMPL_SAFETENSORS_IPP

#include <causeway/formats/safetensors.hpp>
#include <causeway/tensor/dtype.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <tuple>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace formats { namespace detail {

struct element_facts {
  std::string_view name;
  std::size_t size;
};
inline constexpr std::array<element_facts, 17> elements{{{"BOOL", 1},
                                                         {"U8", 1},
                                                         {"I8", 1},
                                                         {"F8_E5M2", 1},
                                                         {"F8_E4M3", 1},
                                                         {"F8_E8M0", 1},
                                                         {"I16", 2},
                                                         {"U16", 2},
                                                         {"F16", 2},
                                                         {"BF16", 2},
                                                         {"I32", 4},
                                                         {"U32", 4},
                                                         {"F32", 4},
                                                         {"C64", 8},
                                                         {"F64", 8},
                                                         {"I64", 8},
                                                         {"U64", 8}}};

inline std::optional<element> element_named(std::string_view name) {
  for (std::size_t i = 0; i < elements.size(); ++i) {
    if (elements[i].name == name) return static_cast<element>(i);
  }
  return std::nullopt;
}

/// Bytes of a tensor; none if its sizes are negative or more than memory could ever be.
inline std::optional<std::uint64_t> bytes_of(element type, std::span<const std::int64_t> shape) {
  constexpr std::uint64_t most = UINT64_MAX / 16;
  std::uint64_t product = size_of(type);
  for (const std::int64_t size : shape) {
    if (size < 0) return std::nullopt;
    const auto n = static_cast<std::uint64_t>(size);
    if (n != 0 && product > most / n) return std::nullopt;
    product *= n;
  }
  return product;
}

/// Reads the entries of a header whose bytes are known to be there.
class header_reader {
 public:
  header_reader(const std::string& where, std::uint64_t data, std::uint64_t size)
      : where_{where}, data_{data}, size_{size} {}

  result<safetensors_header> read(const json_value& root) {
    if (!root.is_object()) return bad("", "the header is not an object");
    for (std::size_t i = 0; i < root.items.size(); ++i) {
      CAUSEWAY_TRY(root.names[i] == "__metadata__" ? metadata(root.items[i]) : entry(root.names[i], root.items[i]));
    }
    auto& all = header_.tensors;
    std::sort(all.begin(), all.end(), [](const tensor_entry& a, const tensor_entry& b) {
      return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
    });
    CAUSEWAY_TRY(fill_the_file());
    return std::move(header_);
  }

 private:
  [[nodiscard]] error bad(const std::string& tensor, const std::string& why) const {
    return fail(errc::corrupt, where_,
                (tensor.empty() ? why : "tensor '" + tensor + "' " + why) + "; get the file again from where it came");
  }

  result<void> metadata(const json_value& from) {
    if (!from.is_object()) return bad("", "__metadata__ is not an object");
    for (std::size_t i = 0; i < from.items.size(); ++i) {
      if (!from.items[i].is(json_value::kind::text)) return bad("", "__metadata__ holds something that is no text");
      header_.metadata.emplace(from.names[i], from.items[i].text);
    }
    return {};
  }

  result<void> entry(const std::string& name, const json_value& from) {
    const json_value* const type = from.find("dtype");
    const json_value* const shape = from.find("shape");
    const json_value* const offsets = from.find("data_offsets");
    if (type == nullptr || shape == nullptr || offsets == nullptr || from.items.size() != 3) {
      return bad(name, "has not just dtype, shape and data_offsets");
    }
    const auto known = element_named(type->text);
    if (!known) {
      return fail(errc::unsupported, where_,
                  "tensor '" + name + "' has the dtype '" + type->text + "', which is not known here; store it as F32");
    }
    tensor_entry e;
    e.name = name, e.type = *known;
    CAUSEWAY_TRY(numbers(name, *shape, e.shape));
    std::vector<std::int64_t> range;
    CAUSEWAY_TRY(numbers(name, *offsets, range));
    if (range.size() != 2 || range[0] > range[1]) return bad(name, "has no beginning and end in data_offsets");
    const auto wanted = bytes_of(e.type, e.shape);
    const auto length = static_cast<std::uint64_t>(range[1] - range[0]);
    if (!wanted || *wanted != length) {
      return bad(name, "has " + std::to_string(length) + " bytes, which its shape and dtype do not come to");
    }
    if (static_cast<std::uint64_t>(range[1]) > size_ - data_) return bad(name, "ends behind the end of the file");
    e.begin = data_ + static_cast<std::uint64_t>(range[0]);
    e.end = data_ + static_cast<std::uint64_t>(range[1]);
    header_.tensors.push_back(std::move(e));
    return {};
  }

  result<void> numbers(const std::string& name, const json_value& from, std::vector<std::int64_t>& to) const {
    if (!from.is(json_value::kind::list)) return bad(name, "has a shape or data_offsets that are no list");
    for (const json_value& v : from.items) {
      if (!v.is(json_value::kind::integer) || v.integer < 0) {
        return bad(name, "has a size or an offset that is no whole number from 0 to 2^63 - 1");
      }
      to.push_back(v.integer);
    }
    return {};
  }

  // No overlap, no hole, nothing behind the last.
  [[nodiscard]] result<void> fill_the_file() const {
    std::uint64_t at = data_;
    for (const tensor_entry& e : header_.tensors) {
      if (e.begin != at) return bad(e.name, e.begin < at ? "overlaps the one before it" : "has a hole before it");
      at = e.end;
    }
    if (at != size_) {
      return bad("", "the last tensor ends at byte " + std::to_string(at) + " of " + std::to_string(size_));
    }
    return {};
  }

  const std::string& where_;
  std::uint64_t data_;
  std::uint64_t size_;
  safetensors_header header_;
};

template <class T>
void widen(std::span<const std::byte> bytes, std::size_t first, std::span<float> out) {
  for (std::size_t i = 0; i < out.size(); ++i) {  // a mapped file aligns nothing
    T value;
    std::memcpy(&value, bytes.data() + (first + i) * sizeof(T), sizeof(T));
    out[i] = static_cast<float>(value);
  }
}

template <class T>
io::byte_vector narrow(std::span<const float> values) {
  io::byte_vector bytes(values.size() * sizeof(T));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const T value{values[i]};
    std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
  }
  return bytes;
}

/// The header of tensors that are in the order of their bytes, with the eight bytes before it.
inline std::string header_text(const std::vector<tensor_source>& tensors,
                               const std::map<std::string, std::string>& metadata) {
  std::string text = "{";
  const auto comma = [&] { text += text.size() > 1 ? "," : ""; };
  if (!metadata.empty()) {
    text += "\"__metadata__\":{";
    for (const auto& [name, value] : metadata) {
      text += (text.back() == '{' ? "" : ",") + json_quoted(name) + ":" + json_quoted(value);
    }
    text += '}';
  }
  std::uint64_t at = 0;
  for (const tensor_source& t : tensors) {
    comma();
    text += json_quoted(t.name) + ":{\"dtype\":\"" + std::string{name_of(t.type)} + "\",\"shape\":[";
    for (std::size_t i = 0; i < t.shape.size(); ++i) text += (i > 0 ? "," : "") + std::to_string(t.shape[i]);
    const std::uint64_t end = at + bytes_of(t.type, t.shape).value_or(0);
    text += "],\"data_offsets\":[" + std::to_string(at) + "," + std::to_string(end) + "]}";
    at = end;
  }
  text += '}';
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::string length(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) length[i] = static_cast<char>((text.size() >> (8 * i)) & 0xFFU);
  return length + text;
}

inline result<void> check_sources(const std::vector<tensor_source>& tensors) {
  std::vector<std::string_view> names;
  for (const tensor_source& t : tensors) {
    names.push_back(t.name);
    if (bytes_of(t.type, t.shape) && t.name != "__metadata__") continue;
    return fail(errc::invalid_argument, "tensor '" + t.name + "'", "has a shape or a name that no file can have");
  }
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice == names.end()) return {};
  return fail(errc::invalid_argument, "tensor '" + std::string{*twice} + "'", "is there twice; each needs its own name");
}

CAUSEWAY_DECL result<void> write_values(const std::string& name, std::uint64_t bytes, const io::byte_producer& values,
                                        const io::byte_sink& sink) {
  std::uint64_t written = 0;
  CAUSEWAY_TRY(values([&](std::span<const std::byte> piece) {
    written += piece.size();
    return sink(piece);
  }));
  if (written == bytes) return {};
  return fail(errc::invalid_argument, "tensor '" + name + "'",
              "has " + std::to_string(written) + " bytes; its shape says " + std::to_string(bytes));
}

}}}}  // namespace causeway::CAUSEWAY_ABI::formats::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace formats {

CAUSEWAY_DECL std::string_view name_of(element e) noexcept { return detail::elements[static_cast<std::size_t>(e)].name; }
CAUSEWAY_DECL std::size_t size_of(element e) noexcept { return detail::elements[static_cast<std::size_t>(e)].size; }

CAUSEWAY_DECL result<safetensors_header> read_safetensors(std::span<const std::byte> file, const std::string& where) {
  const auto corrupt = [&](const std::string& why) {
    return fail(errc::corrupt, where, why + "; it was cut, or is no safetensors file");
  };
  if (file.size() < 8) return corrupt("has " + std::to_string(file.size()) + " bytes, fewer than any such file");
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof length);
  if (length > longest_header) {
    return fail(errc::too_large, where,
                "says that its header has " + std::to_string(length) + " bytes; at most " + std::to_string(longest_header) +
                    " are read. It may be no safetensors file");
  }
  if (length > file.size() - 8) return corrupt("ends within its header of " + std::to_string(length) + " bytes");
  const std::string_view text{reinterpret_cast<const char*>(file.data()) + 8, static_cast<std::size_t>(length)};
  if (!text.starts_with('{')) return corrupt("has a header that does not begin with {");
  CAUSEWAY_ASSIGN(const json_value root, parse_json(text, where, {.bytes = longest_header, .depth = 3}));
  return detail::header_reader{where, 8 + length, file.size()}.read(root);
}

CAUSEWAY_DECL result<safetensors_file> safetensors_file::open(const std::string& path) {
  safetensors_file opened;
  CAUSEWAY_ASSIGN(opened.file_, io::mapped_file::open(path));
  CAUSEWAY_ASSIGN(opened.header_, read_safetensors(opened.file_.bytes(), path));
  opened.path_ = path;
  return opened;
}

CAUSEWAY_DECL result<void> to_floats(element type, std::span<const std::byte> bytes, std::size_t first,
                                     std::span<float> out) {
  CAUSEWAY_EXPECT(first + out.size() <= bytes.size() / size_of(type));
  switch (type) {
    case element::f32: detail::widen<float>(bytes, first, out); return {};
    case element::f64: detail::widen<double>(bytes, first, out); return {};
    case element::f16: detail::widen<f16>(bytes, first, out); return {};
    case element::bf16: detail::widen<bf16>(bytes, first, out); return {};
    default:
      return fail(errc::unsupported, std::string{name_of(type)},
                  "these values are read as F32, F16, BF16 or F64 only; a quantised model must be stored as one of them");
  }
}

CAUSEWAY_DECL result<io::byte_vector> from_floats(element type, std::span<const float> values) {
  switch (type) {
    case element::f32: return detail::narrow<float>(values);
    case element::f16: return detail::narrow<f16>(values);
    case element::bf16: return detail::narrow<bf16>(values);
    default: return fail(errc::unsupported, std::string{name_of(type)}, "write F32, F16 or BF16");
  }
}

CAUSEWAY_DECL io::byte_producer safetensors(std::vector<tensor_source> tensors,
                                            std::map<std::string, std::string> metadata) {
  std::sort(tensors.begin(), tensors.end(), [](const tensor_source& a, const tensor_source& b) {
    return a.type != b.type ? a.type > b.type : a.name < b.name;
  });
  return [all = std::move(tensors), about = std::move(metadata)](const io::byte_sink& sink) -> result<void> {
    CAUSEWAY_TRY(detail::check_sources(all));
    const std::string header = detail::header_text(all, about);
    CAUSEWAY_TRY(sink(std::as_bytes(std::span{header})));
    for (const tensor_source& t : all) {
      CAUSEWAY_TRY(detail::write_values(t.name, detail::bytes_of(t.type, t.shape).value_or(0), t.values, sink));
    }
    return {};
  };
}

}}}  // namespace causeway::CAUSEWAY_ABI::formats

#endif  // CAUSEWAY_FORMATS_IMPL_SAFETENSORS_IPP
