"""The playground ``ghrr play``: a web page that shows the main ideas with sliders. It needs the extra ``ghrr[play]``.

Each tab is one module with a :class:`ghrr.play.tab.Tab`: its controls, and a function from their values to a picture
and the code that computes it. :mod:`ghrr.play.app` assembles the page, and :mod:`ghrr.play.server` serves it.
"""
