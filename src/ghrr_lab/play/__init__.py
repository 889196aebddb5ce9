"""The playground ``ghrr play``: a web page that shows the main ideas with sliders. It needs the extra ``ghrr[play]``.

Each tab is one module with a :class:`ghrr_lab.play.tab.Tab`: its controls, and a function from their values to a
picture and the code that computes it. :mod:`ghrr_lab.play.app` assembles the page, and
:mod:`ghrr_lab.play.server` serves it.
"""
