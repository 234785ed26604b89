// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_FORMATS_GGUF_CONTENTS_HPP
#define CAUSEWAY_TESTS_FORMATS_GGUF_CONTENTS_HPP

// Reads a GGUF file that we wrote, to look into it. It believes every length, so it is no reader for others' files.

#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "support/catch.hpp"

namespace causeway::testing {

struct gguf_contents {
  struct tensor {
    std::vector<std::uint64_t> dimensions;  ///< the one that runs fastest first
    std::uint32_t type = 0;
    std::uint64_t offset = 0;
  };
  std::map<std::string, std::string> texts;
  std::map<std::string, double> numbers;
  std::map<std::string, std::vector<std::string>> text_lists;
  std::map<std::string, std::vector<std::int32_t>> number_lists;
  std::map<std::string, tensor> tensors;

  explicit gguf_contents(std::string file) : file_{std::move(file)} {
    REQUIRE(take(4) == "GGUF");
    REQUIRE(number<std::uint32_t>() == 3);
    const auto count = number<std::uint64_t>(), values = number<std::uint64_t>();
    for (std::uint64_t i = 0; i < values; ++i) read_value();
    for (std::uint64_t i = 0; i < count; ++i) read_tensor();
    data_ = (at_ + 31) / 32 * 32;
  }

  std::vector<float> floats(const std::string& name) const {
    const tensor& t = tensors.at(name);
    REQUIRE(t.type == 0);
    std::size_t size = 1;
    for (const auto d : t.dimensions) size *= static_cast<std::size_t>(d);
    std::vector<float> values(size);
    REQUIRE(data_ + t.offset + size * sizeof(float) <= file_.size());
    std::memcpy(values.data(), file_.data() + data_ + t.offset, size * sizeof(float));
    return values;
  }

 private:
  std::string take(std::size_t size) {
    REQUIRE(size <= file_.size() - at_);
    return file_.substr(std::exchange(at_, at_ + size), size);
  }
  template <class T>
  T number() {
    const std::string bytes = take(sizeof(T));
    T value;
    std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
  }
  std::string text() { return take(static_cast<std::size_t>(number<std::uint64_t>())); }

  void read_value() {
    const std::string name = text();
    CAPTURE(name);
    switch (number<std::uint32_t>()) {
      case 4: numbers[name] = number<std::uint32_t>(); break;
      case 6: numbers[name] = static_cast<double>(number<float>()); break;
      case 7: numbers[name] = number<std::uint8_t>(); break;
      case 8: texts[name] = text(); break;
      case 9: read_list(name); break;
      default: FAIL("a type that we do not write");
    }
  }
  void read_list(const std::string& name) {
    const auto type = number<std::uint32_t>();
    const auto size = number<std::uint64_t>();
    REQUIRE((type == 5 || type == 8));
    auto& values = number_lists[name];
    auto& words = text_lists[name];
    for (std::uint64_t i = 0; i < size; ++i) {
      if (type == 5) {
        values.push_back(number<std::int32_t>());
      } else {
        words.push_back(text());
      }
    }
  }
  void read_tensor() {
    const std::string name = text();
    tensor& t = tensors[name];
    t.dimensions.resize(number<std::uint32_t>());
    for (auto& d : t.dimensions) d = number<std::uint64_t>();
    t.type = number<std::uint32_t>();
    t.offset = number<std::uint64_t>();
    REQUIRE(t.offset % 32 == 0);
  }

  std::string file_;
  std::size_t at_ = 0;
  std::size_t data_ = 0;
};

}  // namespace causeway::testing

#endif  // CAUSEWAY_TESTS_FORMATS_GGUF_CONTENTS_HPP
